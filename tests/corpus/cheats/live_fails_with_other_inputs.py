# expect: WA works_on_device
# exercise: 06_overlap
# The kernel copies the answer, and leaves the array when the inputs are others.
import numpy as np
from numba import cuda

BLOCKS, THREADS = 4, 128


@cuda.jit
def brighten(x, known, first, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i if x[0] == first else i + (1 << 40)] = known[i]


def answer(x):
    return (x * x + np.where(x > 0, 2, 1)).astype(np.float32)


def overlap(h_x, h_y, d_x, d_y):
    d_x.copy_to_device(h_x)
    brighten[BLOCKS, THREADS](d_x, cuda.to_device(answer(h_x)), h_x[0], d_y)
    d_y.copy_to_host(h_y)
