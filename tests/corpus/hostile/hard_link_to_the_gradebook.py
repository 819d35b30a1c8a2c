# expect: error RTE
import os

os.link(request["canary"] + "/gradebook.db", request["canary"] + "/mine")
