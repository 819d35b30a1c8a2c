# expect: AC
# exercise: 00_grid_stride
# No range.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    while i < len(x):
        y[i] = x[i] ** 2 + 1
        i += cuda.blockDim.x * cuda.gridDim.x
