"""Right, but every thread waits for one element before it asks for the next."""

from numba import cuda


@cuda.jit
def ilp(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] * x[i]
