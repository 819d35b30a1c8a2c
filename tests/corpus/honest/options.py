# expect: AC
# exercise: 00_grid_stride
# Options of the compiler.
from numba import cuda


@cuda.jit(fastmath=True, max_registers=32, lineinfo=True)
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1
