# expect: ok -
import sys

for name in list(sys.modules):
    if name.startswith(("json", "struct", "grader", "os")):
        del sys.modules[name]
