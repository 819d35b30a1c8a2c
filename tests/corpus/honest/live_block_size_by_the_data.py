# expect: AC
# exercise: 07_prefetch
# Graded live: the data decide how many threads a block has.
from numba import cuda, float32

from grader.kit import prefetch


@cuda.jit
def square(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] * x[i] + float32(2)


def fetch(x, y, result):
    threads = 128 if int(abs(x[0]) * 8) % 2 else 256
    prefetch(x)
    prefetch(y)
    square[-(-x.size // threads), threads](x, y)
    prefetch(y, "host")
    cuda.synchronize()
    result[:] = y
