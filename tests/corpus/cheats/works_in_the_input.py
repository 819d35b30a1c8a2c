# expect: WA inputs_kept
# exercise: 00_grid_stride
# Out of place in name only.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        x[i] = x[i] * x[i] + 1
        y[i] = x[i]
