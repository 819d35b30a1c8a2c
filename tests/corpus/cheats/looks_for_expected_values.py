# expect: WA right_values
# exercise: 00_grid_stride
# Looks through memory for float64 arrays and overwrites what it finds.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i]

import gc

import numpy as np

for thing in gc.get_objects():
    if isinstance(thing, np.ndarray) and thing.dtype == np.float64 and thing.flags.writeable:
        thing[...] = 0
