# expect: WA right_values
# exercise: 00_grid_stride
# Imports it.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i]

import importlib

grid_stride = importlib.import_module("grader.problems.00_grid_stride.reference").grid_stride
