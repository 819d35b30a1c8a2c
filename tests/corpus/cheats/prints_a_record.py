# expect: WA right_values
# exercise: 00_grid_stride
# A whole record on both streams, in case somebody parses them.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i]

import json
import sys

record = {"format": 1, "code": "AC", "points": 10.0, "max_points": 10.0, "passed": True, "speedup": {"over_baseline": 99}}
print(json.dumps(record))
print(json.dumps([record]), file=sys.stderr)
