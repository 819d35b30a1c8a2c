# expect: ok -
import os

assert "SECRET_OF_THE_GRADER" not in os.environ
try:
    open("/proc/self/environ").read()
except PermissionError:
    pass
else:
    raise AssertionError("/proc is open")
