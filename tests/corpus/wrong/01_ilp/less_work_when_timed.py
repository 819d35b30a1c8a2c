from numba import cuda


@cuda.jit
def ilp(x, y):
    count = x.size if x.size < 100_000 else x.size // 4
    for i in range(cuda.grid(1), count, cuda.gridsize(1)):
        y[i] = x[i] * x[i] * x[i]
