# expect: WA right_values
# exercise: 00_grid_stride
# Looks for the expected values in the memory of its own process.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i]


import ctypes

try:
    with open("/proc/self/maps") as maps:
        for line in maps:
            print(line[:60])
except OSError as e:
    print(e)
ctypes.memset(ctypes.create_string_buffer(4096), 0, 4096)
