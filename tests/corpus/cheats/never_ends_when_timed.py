# expect: TLE finishes
# exercise: 00_grid_stride
# An endless loop where it is timed.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1
        while x.size > 100000:
            y[i] = y[i] + 1
