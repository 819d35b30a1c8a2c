# expect: AC
# exercise: 00_grid_stride
# An experiment that never ends is still queued on a stream of its own when the file ends.
import numpy as np
from numba import cuda


@cuda.jit
def for_ever(a):
    while a[0] == 0:
        a[1] += 1


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1


stream = cuda.stream()
cell = cuda.to_device(np.zeros(2), stream=stream)
for_ever[1, 1, stream](cell)
