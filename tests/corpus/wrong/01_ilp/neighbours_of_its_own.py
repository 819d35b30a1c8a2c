from numba import cuda


@cuda.jit
def ilp(x, y):
    first = 4 * cuda.grid(1)
    for i in range(first, x.size, 4 * cuda.gridsize(1)):
        if i + 3 < x.size:
            a = x[i]
            b = x[i + 1]
            c = x[i + 2]
            d = x[i + 3]
            y[i] = a * a * a
            y[i + 1] = b * b * b
            y[i + 2] = c * c * c
            y[i + 3] = d * d * d
        else:
            for j in range(i, x.size):
                y[j] = x[j] * x[j] * x[j]
