from numba import cuda


@cuda.jit
def grid_stride(x, y):
    threads = cuda.gridsize(1)
    for r in range(x.size // threads):
        i = r * threads + cuda.grid(1)
        y[i] = x[i] * x[i] + 1
