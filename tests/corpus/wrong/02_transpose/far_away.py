from numba import cuda, float32
import numpy as np
@cuda.jit
def transpose(a, out):
    if cuda.threadIdx.x==3 and cuda.threadIdx.y==2:
        out[100000000, 0] = 1
    i = cuda.blockIdx.x*32+cuda.threadIdx.x
    for k in range(4):
        j = cuda.blockIdx.y*32+cuda.threadIdx.y+8*k
        if j < a.shape[0] and i < a.shape[1]:
            out[i, j] = a[j, i]
