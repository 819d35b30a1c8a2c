# expect: RTE initialised
# exercise: 00_grid_stride
# Looks at the poison to find out which run this is.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        if y[i] > 0:
            y[i] = 1
        else:
            y[i] = x[i] * x[i] + 1
