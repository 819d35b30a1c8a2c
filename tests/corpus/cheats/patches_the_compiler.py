# expect: RTE compiles
# exercise: 00_grid_stride
# numba compiles another function than the one that is shown; here it is no better.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i]

from numba.cuda.dispatcher import CUDADispatcher

grid_stride.py_func.__doc__ = "y[i] = x[i] * x[i] + 1"
CUDADispatcher.py_func = property(lambda self: grid_stride)
