# expect: error RTE
import os

os.truncate(request["canary"] + "/gradebook.db", 0)
