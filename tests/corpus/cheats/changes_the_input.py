# expect: WA inputs_kept
# exercise: 00_grid_stride
# Makes the input such that the constant is right.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        x[i] = 0
        y[i] = 1
