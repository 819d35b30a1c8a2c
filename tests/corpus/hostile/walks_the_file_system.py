# expect: ok -
import os

found = [name for _, _, names in os.walk(request["canary"]) for name in names]
assert not found, found
