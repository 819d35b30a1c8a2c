# expect: WA right_values
# exercise: 00_grid_stride
# float16 inside: half the work, and nearly right.
from numba import cuda
import numpy as np


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        h = np.float16(x[i])
        y[i] = np.float32(h) * np.float32(h) + 1
