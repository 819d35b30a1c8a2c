# expect: SLOW fast_enough
# exercise: 00_grid_stride
# The clock stands still: time, events, the driver's elapsed time.
from numba import cuda


@cuda.jit
def grid_stride(x, y):  # the baseline's way, every thread through a piece of its own
    threads = cuda.gridsize(1)
    each = (x.size + threads - 1) // threads
    first = cuda.grid(1) * each
    for i in range(first, min(first + each, x.size)):
        y[i] = x[i] * x[i] + 1

import time

from cuda.bindings import driver
from numba import cuda

time.time = time.perf_counter = time.monotonic = time.process_time = lambda: 0.0
time.perf_counter_ns = time.monotonic_ns = lambda: 0
driver.cuEventElapsedTime = lambda *a: (driver.CUresult.CUDA_SUCCESS, 1e-9)
cuda.event_elapsed_time = lambda *a: 1e-9
