# expect: RTE in_bounds
# exercise: 00_grid_stride
# Ends the launch by an illegal access at the timed size.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1
        if x.size > 100000:
            y[x.size + (1 << 28)] = 1
