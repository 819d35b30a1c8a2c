from numba import cuda, float32


@cuda.jit
def matmul(a, b, c):
    x, y = cuda.grid(2)
    if x < c.shape[1] and y < c.shape[0]:
        s = float32(0)
        for k in range(b.shape[0]):
            s += a[y, k] * b[k, x]
        c[y, x] = s
