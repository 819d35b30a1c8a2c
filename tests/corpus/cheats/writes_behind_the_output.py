# expect: RTE in_bounds
# exercise: 00_grid_stride
# Marks the memory behind the output.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1
        if i == 0:
            y[x.size + 3] = 1
