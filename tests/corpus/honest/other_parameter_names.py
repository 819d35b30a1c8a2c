# expect: AC
# exercise: 00_grid_stride
# Parameters called as the author likes.
from numba import cuda


@cuda.jit
def grid_stride(source, destination):
    for k in range(cuda.grid(1), source.size, cuda.gridsize(1)):
        destination[k] = source[k] * source[k] + 1
