# expect: RTE in_bounds
# exercise: 00_grid_stride
# Whatever lies in front of the input might be the answer.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i - 40000]
