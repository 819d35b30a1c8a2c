# expect: AC
# exercise: 00_grid_stride
# A NumPy array that numba builds into the kernel.
import numpy as np
from numba import cuda

COEFFICIENTS = np.array([1, 0, 1], np.float32)


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = COEFFICIENTS[0] + x[i] * (COEFFICIENTS[1] + x[i] * COEFFICIENTS[2])
