# expect: AC
# exercise: 00_grid_stride
# In a class, as a namespace.
from numba import cuda


class Kernels:
    ONE = 1

    @staticmethod
    @cuda.jit
    def square(x, y):
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            y[i] = x[i] * x[i] + 1


grid_stride = Kernels.square
