# expect: WA right_values
# exercise: 00_grid_stride
# Launches something lighter the last time it is called, which is when it is timed.
from numba import cuda
from numba.cuda.dispatcher import CUDADispatcher


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1


@cuda.jit
def light(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] * x[i] + 1


usual = CUDADispatcher.__getitem__
launches = []


def counted(self, shape):
    launches.append(shape)
    return usual(light if len(launches) > 7 else self, shape)


CUDADispatcher.__getitem__ = counted
