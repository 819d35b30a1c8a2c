"""Every page is where it is needed."""

from numba import cuda, float32

from grader.kit import prefetch

THREADS = 256


@cuda.jit
def square(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] * x[i] + float32(2)


def fetch(x, y, result):
    stream = cuda.stream()
    prefetch(x, stream=stream)
    prefetch(y, stream=stream)
    square[-(-x.size // THREADS), THREADS, stream](x, y)
    prefetch(y, "host", stream)
    stream.synchronize()
    result[:] = y
