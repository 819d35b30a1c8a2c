from numba import cuda


@cuda.jit
def grid_stride(x, y):
    i = cuda.grid(1)
    step = cuda.gridsize(1)
    while i < x.size:
        y[i] = x[i] * x[i] + 1
        if i + step < x.size:
            i += step
