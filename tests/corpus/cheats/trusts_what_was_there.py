# expect: RTE initialised
# exercise: 00_grid_stride
# Keeps what the output holds if it looks like a result.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        if y[i] != y[i] or y[i] < 1:
            y[i] = x[i] * x[i] + 1
