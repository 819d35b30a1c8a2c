# expect: AC
# exercise: 06_overlap
# The given kernel with other names and comments, made by a function: its code is the same.
from numba import cuda, float32


def made():
    """Nothing but a place for the kernel."""

    @cuda.jit
    def lighten(source, target):
        # as brighten, in the notebook
        for k in range(cuda.grid(1), source.size, cuda.gridsize(1)):
            target[k] = source[k] * source[k] + (float32(2) if source[k] > 0 else float32(1))

    return lighten


kernel = made()


def overlap(h_x, h_y, d_x, d_y):
    streams = [cuda.stream() for _ in range(4)]
    n = h_x.size
    size = -(-n // 8)
    for number, first in enumerate(range(0, n, size)):
        part = slice(first, min(first + size, n))
        stream = streams[number % 4]
        d_x[part].copy_to_device(h_x[part], stream=stream)
        kernel[4, 128, stream](d_x[part], d_y[part])
        d_y[part].copy_to_host(h_y[part], stream=stream)
    cuda.synchronize()
