# expect: AC
# exercise: 00_grid_stride
# A function inside of the kernel.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    def f(v):
        return v * v + 1

    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = f(x[i])
