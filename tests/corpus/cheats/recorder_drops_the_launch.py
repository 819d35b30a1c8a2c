# expect: SV as_launched
# exercise: 00_grid_stride
# The recorder sees no launches.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1

from grader.recording import Recorder

true_take = Recorder._take
Recorder._take = lambda self, kind, op: None if kind == "launch" else true_take(self, kind, op)
