# expect: AC
# exercise: 00_grid_stride
# Asks numba to keep the compiled kernel on disk.
from numba import cuda


@cuda.jit(cache=True)
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1
