from numba import cuda


@cuda.jit
def ilp(x, y):
    i = cuda.grid(1)
    step = cuda.gridsize(1)
    while i + 3 * step < x.size:
        y[i] = x[i] * x[i] * x[i]
        y[i + step] = x[i + step] * x[i + step] * x[i + step]
        y[i + 2 * step] = x[i + 2 * step] * x[i + 2 * step] * x[i + 2 * step]
        y[i + 3 * step] = x[i + 3 * step] * x[i + 3 * step] * x[i + 3 * step]
        i += 4 * step
    while i < x.size:
        y[i] = x[i] * x[i] * x[i]
        i += step
