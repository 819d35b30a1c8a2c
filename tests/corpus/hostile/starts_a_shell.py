# expect: error RTE
import subprocess

subprocess.run(["/bin/sh", "-c", "id"], check=True)
