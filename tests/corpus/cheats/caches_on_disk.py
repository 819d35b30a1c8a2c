# expect: WA right_values
# exercise: 00_grid_stride
# Keeps its results where the next run could find them.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i]


import numpy as np

for folder in ("/tmp", "/dev/shm", "/var/tmp", "."):
    try:
        np.save(folder + "/grid_stride_cache.npy", np.ones(4099, np.float32))
    except OSError as e:
        print(e)
