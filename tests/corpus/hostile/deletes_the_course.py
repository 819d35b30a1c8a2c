# expect: ok -
import os
import shutil

shutil.rmtree(request["canary"], ignore_errors=True)
os.path.exists(request["canary"] + "/gradebook.db") or print("gone")
