# expect: AC
# exercise: 00_grid_stride
# A device function of its own.
from numba import cuda


@cuda.jit(device=True)
def square_plus_one(v):
    return v * v + 1


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = square_plus_one(x[i])
