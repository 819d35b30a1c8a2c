# expect: AC
# exercise: 00_grid_stride
# A table in constant memory.
import numpy as np
from numba import cuda

TABLE = np.array([1, 0, 0, 0], np.float32)


@cuda.jit
def grid_stride(x, y):
    table = cuda.const.array_like(TABLE)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + table[0]
