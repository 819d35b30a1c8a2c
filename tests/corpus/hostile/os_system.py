# expect: error RTE
import os

if os.system("touch /tmp/broken-out"):
    raise OSError("no shell")
