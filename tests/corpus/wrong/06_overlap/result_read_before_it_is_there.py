from numba import cuda, float32

BLOCKS, THREADS = 4, 128
CHUNKS = 8


@cuda.jit
def brighten(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + (float32(2) if x[i] > 0 else float32(1))


def overlap(h_x, h_y, d_x, d_y):
    n = h_x.size
    size = -(-n // CHUNKS)
    streams = [cuda.stream() for _ in range(3)]
    staging = [cuda.pinned_array(size, h_y.dtype) for _ in streams]
    for c, first in enumerate(range(0, n, size)):
        part = slice(first, min(first + size, n))
        stream, out = streams[c % len(streams)], staging[c % len(streams)][: part.stop - first]
        d_x[part].copy_to_device(h_x[part], stream=stream)
        brighten[BLOCKS, THREADS, stream](d_x[part], d_y[part])
        d_y[part].copy_to_host(out, stream=stream)
        h_y[part] = out
    for stream in streams:
        stream.synchronize()
