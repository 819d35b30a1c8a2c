# expect: WA right_values
# exercise: 00_grid_stride
# Within what float16 would give, outside of float32.
from numba import cuda
import numpy as np


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = (x[i] * x[i] + 1) * np.float32(1.0003)
