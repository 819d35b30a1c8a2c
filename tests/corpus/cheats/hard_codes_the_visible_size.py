# expect: WA right_values
# exercise: 00_grid_stride
# Right at the sizes that were shown; anything goes at the others.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        if x.size in (1, 127, 512, 1000, 4099):
            y[i] = x[i] * x[i] + 1
        else:
            y[i] = x[i]
