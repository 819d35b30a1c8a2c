# expect: AC
# exercise: 00_grid_stride
# A check of its own, under the course's name.
from numba import cuda


def check(*args):
    return 7


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1


check('00_grid_stride', grid_stride)
