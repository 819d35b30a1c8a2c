# expect: AC
# exercise: 06_overlap
# Graded live: the order of the chunks depends on what is in them.
import numpy as np
from numba import cuda, float32

BLOCKS, THREADS = 4, 128


@cuda.jit
def brighten(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + (float32(2) if x[i] > 0 else float32(1))


def overlap(h_x, h_y, d_x, d_y):
    n = h_x.size
    size = -(-n // 8)
    parts = [slice(first, min(first + size, n)) for first in range(0, n, size)]
    parts.sort(key=lambda part: -np.abs(h_x[part]).max())
    streams = [cuda.stream() for _ in range(3)]
    for c, part in enumerate(parts):
        stream = streams[c % len(streams)]
        d_x[part].copy_to_device(h_x[part], stream=stream)
        brighten[BLOCKS, THREADS, stream](d_x[part], d_y[part])
        d_y[part].copy_to_host(h_y[part], stream=stream)
    for stream in streams:
        stream.synchronize()
