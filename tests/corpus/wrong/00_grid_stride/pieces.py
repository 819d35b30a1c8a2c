from numba import cuda


@cuda.jit
def grid_stride(x, y):
    each = (x.size + cuda.gridsize(1) - 1) // cuda.gridsize(1)
    for k in range(each):
        i = cuda.grid(1) * each + k
        if i < x.size:
            y[i] = x[i] * x[i] + 1
