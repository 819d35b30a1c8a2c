# expect: WA inputs_kept
# exercise: 00_grid_stride
# Writes to its input at the size that is timed.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1
        if i == 1234567:
            x[i] = 0
