# expect: CE compiles
# exercise: 00_grid_stride
# A third parameter that has a value already.
from numba import cuda


@cuda.jit
def grid_stride(x, y, c=1):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + c
