# expect: error RTE
import os

os.mkdir(request["canary"] + "/outside")
