# expect: AC
# exercise: 00_grid_stride
# A lambda compiled for the device.
from numba import cuda

f = cuda.jit(device=True)(lambda v: v * v + 1)


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = f(x[i])
