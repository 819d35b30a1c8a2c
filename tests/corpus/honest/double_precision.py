# expect: AC
# exercise: 00_grid_stride
# Computes in float64, and is right.
import numpy as np
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        v = np.float64(x[i])
        y[i] = v * v + 1.0
