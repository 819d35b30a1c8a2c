# expect: SLOW fast_enough
# exercise: 06_overlap
# Claims to depend on its data, to be given the inputs; what it asks for is still replayed and timed by others.
from numba import cuda, float32

import grader.host

BLOCKS, THREADS = 4, 128
answers = iter(["a launch", "", "", ""])
grader.host.difference = lambda one, other: next(answers)


@cuda.jit
def brighten(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + (float32(2) if x[i] > 0 else float32(1))


def overlap(h_x, h_y, d_x, d_y):
    d_x.copy_to_device(h_x)
    brighten[BLOCKS, THREADS](d_x, d_y)
    d_y.copy_to_host(h_y)
