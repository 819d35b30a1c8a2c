# expect: WA right_values
# exercise: 00_grid_stride
# What makes some test runners stop with success.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i]

import unittest

raise unittest.SkipTest("all tests passed")
