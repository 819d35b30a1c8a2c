# expect: AC
# exercise: 00_grid_stride
# An experiment of its own writes where it must not; the answer is another kernel.
import numpy as np
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1


@cuda.jit
def experiment(a):
    a[cuda.grid(1) + (1 << 30)] = 1


experiment[1, 32](cuda.to_device(np.zeros(4)))
cuda.synchronize()
