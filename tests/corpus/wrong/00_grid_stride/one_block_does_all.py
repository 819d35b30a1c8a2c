from numba import cuda, float32
import numpy as np
@cuda.jit
def grid_stride(x, y):
    b = 17 if cuda.gridDim.x > 17 else 0
    if cuda.blockIdx.x == b:
        for i in range(cuda.threadIdx.x, x.size, cuda.blockDim.x):
            y[i] = x[i]*x[i]+1
