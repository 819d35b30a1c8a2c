# expect: WA right_values
# exercise: 00_grid_stride
# Asks the exercise itself for inputs and expected values.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i]

import importlib

problem = importlib.import_module("grader.problems.00_grid_stride.problem").PROBLEM
problem.reference = lambda inputs, sizes: {"y": inputs["x"]}
