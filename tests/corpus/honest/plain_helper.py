# expect: AC
# exercise: 00_grid_stride
# A plain Python function that numba compiles on its own.
from numba import cuda


def f(v):
    return v * v + 1


f = cuda.jit(f, device=True)


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = f(x[i])
