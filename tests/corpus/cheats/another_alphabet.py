# expect: CE compiles
# exercise: 00_grid_stride
# The right name in the wrong alphabet.
from numba import cuda


@cuda.jit
def grid_striԁe(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1
