# expect: error RTE
import os

while True:
    os.fork()
