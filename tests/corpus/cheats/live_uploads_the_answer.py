# expect: WA works_on_device
# exercise: 06_overlap
# The host computes the answer, copies it to the device, and down again; a kernel runs beside it.
import numpy as np
from numba import cuda, float32

BLOCKS, THREADS = 4, 128


@cuda.jit
def brighten(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + (float32(2) if x[i] > 0 else float32(1))


def answer(x):
    return (x * x + np.where(x > 0, 2, 1)).astype(np.float32)


def overlap(h_x, h_y, d_x, d_y):
    d_x.copy_to_device(h_x)
    brighten[BLOCKS, THREADS](d_x, d_y)
    d_y.copy_to_device(answer(h_x))
    d_y.copy_to_host(h_y)
