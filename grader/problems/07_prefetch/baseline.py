"""Every page is fetched by a fault."""

from numba import cuda, float32

THREADS = 256


@cuda.jit
def square(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] * x[i] + float32(2)


def fetch(x, y, result):
    square[-(-x.size // THREADS), THREADS](x, y)
    cuda.synchronize()
    result[:] = y
