# expect: WA right_values
# exercise: 00_grid_stride
# Not a number: compares false with every bound.
from numba import cuda
import math


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = math.nan
