# expect: WA right_values
# exercise: 00_grid_stride
# Beyond every bound, in both directions.
from numba import cuda
import math


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = math.inf if i % 2 else -math.inf
