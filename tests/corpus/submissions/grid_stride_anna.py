from numba import cuda


@cuda.jit
def grid_stride(x, y):
    start = cuda.grid(1)
    step = cuda.gridsize(1)
    for i in range(start, x.size, step):
        v = x[i]
        y[i] = v * v + 1
