"""Prints what three kernels are bound by, and what limits the occupancy of a fourth."""

import numpy as np
from numba import cuda, float32

from grader.kit.limits import why


@cuda.jit
def copy(x, y):
    i = cuda.grid(1)
    while i < x.size:
        y[i] = x[i]
        i += cuda.gridsize(1)


@cuda.jit
def arithmetic(x, y):
    i = cuda.grid(1)
    v = x[i]
    a = b = c = d = float32(0)
    for _ in range(16):
        a = a * v + float32(0.5)
        b = b * v + float32(0.25)
        c = c * v + float32(0.125)
        d = d * v + float32(0.75)
    y[i] = a + b + c + d


n = 1 << 22
x, y = cuda.to_device(np.ones(n, np.float32)), cuda.device_array(n, np.float32)
few = why(lambda: copy[40, 64](x, y))
print("few warps", few.bound_by, max(few.stalls, key=few.stalls.get))
print("many warps", why(lambda: copy[864, 256](x, y)).bound_by)
print("arithmetic", why(lambda: arithmetic[n // 1024, 256](x, y)).bound_by)
braked = why(lambda: copy[864, 128, 0, 40 * 1024](x, y))
print("braked", braked.blocks, braked.occupancy, *braked.limited_by)
