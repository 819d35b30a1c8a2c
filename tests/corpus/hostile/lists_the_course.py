# expect: error RTE
import os

print(os.listdir(request["canary"]))
