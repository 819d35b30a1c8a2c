# expect: RTE compiles
# exercise: 00_grid_stride
# A cache in device memory that lives longer than a launch.
import numpy as np
from numba import cuda

known = cuda.to_device(np.zeros(1 << 21, np.float32))


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        if known[i] == 0:
            known[i] = x[i] * x[i] + 1
        y[i] = known[i]
