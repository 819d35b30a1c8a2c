# expect: error RTE
import os

os.symlink("/etc/passwd", request["canary"] + "/result")
