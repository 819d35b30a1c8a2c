"""Eight loads are under way before the first store; what is left over goes one by one."""

from numba import cuda


@cuda.jit
def ilp(x, y):
    i = cuda.grid(1)
    step = cuda.gridsize(1)
    while i + 7 * step < x.size:
        a = x[i]
        b = x[i + step]
        c = x[i + 2 * step]
        d = x[i + 3 * step]
        e = x[i + 4 * step]
        f = x[i + 5 * step]
        g = x[i + 6 * step]
        h = x[i + 7 * step]
        y[i] = a * a * a
        y[i + step] = b * b * b
        y[i + 2 * step] = c * c * c
        y[i + 3 * step] = d * d * d
        y[i + 4 * step] = e * e * e
        y[i + 5 * step] = f * f * f
        y[i + 6 * step] = g * g * g
        y[i + 7 * step] = h * h * h
        i += 8 * step
    while i < x.size:
        y[i] = x[i] * x[i] * x[i]
        i += step
