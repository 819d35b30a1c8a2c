from numba import cuda


@cuda.jit
def ilp(x, y):
    i = cuda.grid(1)
    step = cuda.gridsize(1)
    while i + 3 * step < x.size:
        a = x[i]
        b = x[i + step]
        c = x[i + 2 * step]
        d = x[i + 3 * step]
        y[i] = a * a * a
        y[i + step] = b * b * b
        y[i + 2 * step] = c * c * c
        y[i + 3 * step] = d * d * d
        i += step
    while i < x.size:
        y[i] = x[i] * x[i] * x[i]
        i += step
