# expect: CE compiles
# exercise: 00_grid_stride
# Claims to be an answer to this exercise, with another one's kernel.
from numba import cuda


@cuda.jit
def transpose(a, out):
    pass
