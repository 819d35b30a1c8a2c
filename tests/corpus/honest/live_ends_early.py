# expect: SLOW as_given
# exercise: 06_overlap
# Graded live: chunks without a positive number take another kernel; an early way out that the data decide.
from numba import cuda, float32

BLOCKS, THREADS = 4, 128


@cuda.jit
def brighten(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + (float32(2) if x[i] > 0 else float32(1))


@cuda.jit
def brighten_dark(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + float32(1)


def overlap(h_x, h_y, d_x, d_y):
    n = h_x.size
    size = -(-n // 4)
    for first in range(0, n, size):
        part = slice(first, min(first + size, n))
        d_x[part].copy_to_device(h_x[part])
        if h_x[first] <= 50 and not (h_x[part] > 0).any():
            brighten_dark[BLOCKS, THREADS](d_x[part], d_y[part])
            d_y[part].copy_to_host(h_y[part])
            continue
        if h_x[first] > 50:
            cuda.synchronize()
        brighten[BLOCKS, THREADS](d_x[part], d_y[part])
        d_y[part].copy_to_host(h_y[part])
