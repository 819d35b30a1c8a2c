# expect: ok -
import atexit
import os


class Late:
    def __del__(self):
        os._exit(3)


keep = Late()
atexit.register(os._exit, 3)
