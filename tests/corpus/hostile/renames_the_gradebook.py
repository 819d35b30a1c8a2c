# expect: error RTE
import os

os.rename(request["canary"] + "/gradebook.db", request["canary"] + "/old")
