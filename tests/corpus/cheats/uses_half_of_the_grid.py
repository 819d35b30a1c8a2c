# expect: SLOW fast_enough
# exercise: 00_grid_stride
# Right, with most of the threads idle: no points for speed.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    if cuda.blockIdx.x == 0:
        for i in range(cuda.threadIdx.x, x.size, cuda.blockDim.x):
            y[i] = x[i] * x[i] + 1
