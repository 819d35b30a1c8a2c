# expect: WA works_on_device
# exercise: 06_overlap
# The kernel only copies the answer, which the host has computed into pinned memory of its own.
import numpy as np
from numba import cuda

BLOCKS, THREADS = 4, 128


@cuda.jit
def brighten(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i]


def answer(x):
    return (x * x + np.where(x > 0, 2, 1)).astype(np.float32)


def overlap(h_x, h_y, d_x, d_y):
    known = cuda.pinned_array(h_x.size, np.float32)
    known[:] = answer(h_x)
    d_x.copy_to_device(known)
    brighten[BLOCKS, THREADS](d_x, d_y)
    d_y.copy_to_host(h_y)
