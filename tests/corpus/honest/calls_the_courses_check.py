# expect: AC
# exercise: 00_grid_stride
# The line from the notebook, in a script.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1


check('00_grid_stride', grid_stride)
