# expect: RTE compiles
# exercise: 00_grid_stride
# The recorder ends with something else than a program.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1

from grader.recording import Recorder

Recorder.end = lambda self: "AC"
