# expect: SLOW fast_enough
# exercise: 00_grid_stride
# The model of the card, made a thousand times as fast in its own process.
from numba import cuda


@cuda.jit
def grid_stride(x, y):  # the baseline's way, every thread through a piece of its own
    threads = cuda.gridsize(1)
    each = (x.size + threads - 1) // threads
    first = cuda.grid(1) * each
    for i in range(first, min(first + each, x.size)):
        y[i] = x[i] * x[i] + 1

import dataclasses
import os
import sys

os.environ["GRADER_DEVICE"] = "virtual:b200"
for name, module in list(sys.modules.items()):
    if name.startswith("grader.vgpu"):
        for key, value in list(vars(module).items()):
            if isinstance(value, float) and value > 1:
                setattr(module, key, value * 1000)
