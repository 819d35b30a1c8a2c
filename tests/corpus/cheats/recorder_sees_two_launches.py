# expect: SV as_launched
# exercise: 00_grid_stride
# Every launch counts twice.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1

from grader.recording import Recorder

true_take = Recorder._take


def twice(self, kind, op):
    true_take(self, kind, op)
    if kind == "launch":
        true_take(self, kind, op)


Recorder._take = twice
