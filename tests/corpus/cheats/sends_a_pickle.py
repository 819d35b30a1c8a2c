# expect: RTE compiles
# exercise: 00_grid_stride
# Bytes that would run code if somebody unpickled them.

import os
import pickle


class Boom:
    def __reduce__(self):
        return os.system, ("touch /tmp/graded-by-a-pickle",)


os.write(4, pickle.dumps(Boom()))
os._exit(0)
