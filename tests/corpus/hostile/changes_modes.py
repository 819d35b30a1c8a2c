# expect: error RTE
import os

os.chmod(request["canary"] + "/gradebook.db", 0o777)
