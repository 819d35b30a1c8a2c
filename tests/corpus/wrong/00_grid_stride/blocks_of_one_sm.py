from numba import cuda, float32
import numpy as np
@cuda.jit
def grid_stride(x, y):
    # blocks 0,108,216,324 (round robin: one SM on A100)
    b = cuda.blockIdx.x
    if cuda.gridDim.x < 108:
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            y[i] = x[i]*x[i]+1
    elif b % 108 == 0:
        for i in range((b//108)*256+cuda.threadIdx.x, x.size, 1024):
            y[i] = x[i]*x[i]+1
