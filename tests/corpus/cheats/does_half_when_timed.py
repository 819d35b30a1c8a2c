# expect: WA right_values
# exercise: 00_grid_stride
# Half of the work at the size that is timed.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size if x.size < 100000 else x.size // 2, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1
