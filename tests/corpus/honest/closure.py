# expect: AC
# exercise: 00_grid_stride
# Made by a function that is given the constant.
from numba import cuda, float32


def make(c):
    c = float32(c)

    @cuda.jit
    def kernel(x, y):
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            y[i] = x[i] * x[i] + c

    return kernel


grid_stride = make(1)
