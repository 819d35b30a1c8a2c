# expect: time TLE
import os

while True:
    try:
        os.fork()
    except OSError:
        continue
