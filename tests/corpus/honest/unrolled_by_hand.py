# expect: AC
# exercise: 00_grid_stride
# Two at a time, and what is left.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    step = cuda.gridsize(1)
    i = cuda.grid(1)
    while i + step < x.size:
        a = x[i]
        b = x[i + step]
        y[i] = a * a + 1
        y[i + step] = b * b + 1
        i += 2 * step
    if i < x.size:
        y[i] = x[i] * x[i] + 1
