# expect: SV as_launched
# exercise: 00_grid_stride
# Walks up the stack for the case, the arrays, the recorder.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i]

import sys

frame = sys._getframe()
while frame:
    for name, value in list(frame.f_locals.items()):
        if isinstance(value, dict) and "cases" in value:
            for case in value["cases"]:
                case["grid"] = [1]
                case["args"] = case["args"][::-1]
    frame = frame.f_back
