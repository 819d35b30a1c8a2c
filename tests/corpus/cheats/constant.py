# expect: WA right_values
# exercise: 00_grid_stride
# The mean of the answer.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = 1
