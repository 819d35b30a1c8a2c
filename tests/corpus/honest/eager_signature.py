# expect: AC
# exercise: 00_grid_stride
# Compiled when it is defined.
from numba import cuda


@cuda.jit("void(float32[:], float32[:])")
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1
