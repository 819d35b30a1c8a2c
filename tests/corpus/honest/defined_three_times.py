# expect: AC
# exercise: 00_grid_stride
# The last one counts.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    pass


@cuda.jit
def grid_stride(x, y):
    y[0] = x[0]


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1
