# expect: AC
# exercise: 06_overlap
# Graded live: as many chunks, and so launches, as the first number asks for.
from numba import cuda, float32

BLOCKS, THREADS = 4, 128


@cuda.jit
def brighten(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + (float32(2) if x[i] > 0 else float32(1))


def overlap(h_x, h_y, d_x, d_y):
    n = h_x.size
    size = -(-n // (8 + int(abs(h_x[0])) % 3))
    streams = [cuda.stream() for _ in range(3)]
    for c, first in enumerate(range(0, n, size)):
        part = slice(first, min(first + size, n))
        stream = streams[c % len(streams)]
        d_x[part].copy_to_device(h_x[part], stream=stream)
        brighten[BLOCKS, THREADS, stream](d_x[part], d_y[part])
        d_y[part].copy_to_host(h_y[part], stream=stream)
    for stream in streams:
        stream.synchronize()
