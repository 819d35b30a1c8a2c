# expect: SLOW overlaps
# exercise: 06_overlap
# A kernel runs beside the copies, on data that nothing comes of.
import numpy as np
from numba import cuda, float32

BLOCKS, THREADS = 4, 128


@cuda.jit
def brighten(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + (float32(2) if x[i] > 0 else float32(1))


def overlap(h_x, h_y, d_x, d_y):
    n = h_x.size
    work, beside = cuda.stream(), cuda.stream()
    a, b = cuda.device_array(n, np.float32), cuda.device_array(n, np.float32)
    a.copy_to_device(h_x)
    size = -(-n // 2)
    for first in range(0, n, size):
        part = slice(first, min(first + size, n))
        d_x[part].copy_to_device(h_x[part], stream=work)
        brighten[BLOCKS, THREADS, beside](a, b)
        brighten[BLOCKS, THREADS, work](d_x[part], d_y[part])
        d_y[part].copy_to_host(h_y[part], stream=work)
    work.synchronize()
    beside.synchronize()
