# expect: CE compiles
# exercise: 00_grid_stride
# Its class says that it is one; what it does is nothing.
from numba.cuda.dispatcher import CUDADispatcher


class Kernel:
    __class__ = CUDADispatcher

    @staticmethod
    def py_func(x, y):
        pass

    def __getitem__(self, shape):
        return lambda *a: None


grid_stride = Kernel()
