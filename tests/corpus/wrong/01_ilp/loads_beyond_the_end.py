from numba import cuda


@cuda.jit
def ilp(x, y):
    step = cuda.gridsize(1)
    for i in range(cuda.grid(1), x.size, 4 * step):
        a = x[i]
        b = x[i + step]
        c = x[i + 2 * step]
        d = x[i + 3 * step]
        y[i] = a * a * a
        if i + step < x.size:
            y[i + step] = b * b * b
        if i + 2 * step < x.size:
            y[i + 2 * step] = c * c * c
        if i + 3 * step < x.size:
            y[i + 3 * step] = d * d * d
