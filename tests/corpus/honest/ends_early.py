# expect: AC
# exercise: 00_grid_stride
# Calls exit, as people do in scripts.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1


exit(1)
