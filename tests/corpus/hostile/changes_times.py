# expect: error RTE
import os

os.utime(request["canary"] + "/gradebook.db", (0, 0))
