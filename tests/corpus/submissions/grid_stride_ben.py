# each thread does its own part of the array, so no two threads get in each other's way
import math

from numba import cuda


@cuda.jit
def grid_stride(x, y):
    tid = cuda.grid(1)
    n_threads = cuda.gridDim.x * cuda.blockDim.x
    part = int(math.ceil(x.size / n_threads))
    for k in range(part):
        i = tid * part + k
        if i < x.size:
            y[i] = x[i] * x[i] + 1
