# expect: RTE compiles
# exercise: 00_grid_stride
# Exit status 0 before anything is looked at, beside a right kernel.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1

import os

print("OK")
os._exit(0)
