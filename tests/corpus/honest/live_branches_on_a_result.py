# expect: AC no_page_faults
# exercise: 07_prefetch
# Graded live: the host reads a result back and decides by it how the rest comes.
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
    square[-(-x.size // 256), 256](x, y)
    cuda.synchronize()
    if y[0] > 2000:
        prefetch(y, "host")
        cuda.synchronize()
    result[:] = y
