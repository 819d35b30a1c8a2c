from numba import cuda, float32

from grader.kit import prefetch


@cuda.jit
def square(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] * x[i] + float32(2)


def fetch(x, y, result):
    prefetch(x)
    prefetch(y)
    square[max(1, x.size // 256), 256](x, y)
    prefetch(y, "host")
    cuda.synchronize()
    result[:] = y
