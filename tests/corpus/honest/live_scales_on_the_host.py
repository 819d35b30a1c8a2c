# expect: SLOW as_given
# exercise: 06_overlap
# Graded live: between two copies the host makes a number of what a kernel found. Right, but in one stream.
import numpy as np
from numba import cuda, float32

BLOCKS, THREADS = 4, 128


@cuda.jit
def largest(x, found):
    most = float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        most = max(most, abs(x[i]))
    found[cuda.grid(1)] = most


@cuda.jit
def brighten(x, scale, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        v = x[i] / scale[0]
        y[i] = v * v * scale[0] * scale[0] + (float32(2) if x[i] > 0 else float32(1))


def overlap(h_x, h_y, d_x, d_y):
    d_x.copy_to_device(h_x)
    found = cuda.device_array(BLOCKS * THREADS, np.float32)
    largest[BLOCKS, THREADS](d_x, found)
    scale = 2 ** np.ceil(np.log2(found.copy_to_host().max() + np.float32(1)))
    brighten[BLOCKS, THREADS](d_x, cuda.to_device(np.array([scale], np.float32)), d_y)
    d_y.copy_to_host(h_y)
