# expect: SLOW fast_enough
# exercise: 00_grid_stride
# Nothing is ever waited for.
from numba import cuda


@cuda.jit
def grid_stride(x, y):  # the baseline's way, every thread through a piece of its own
    threads = cuda.gridsize(1)
    each = (x.size + threads - 1) // threads
    first = cuda.grid(1) * each
    for i in range(first, min(first + each, x.size)):
        y[i] = x[i] * x[i] + 1

from cuda.bindings import driver

ok = (driver.CUresult.CUDA_SUCCESS,)
driver.cuCtxSynchronize = driver.cuStreamSynchronize = driver.cuEventSynchronize = lambda *a: ok
cuda.synchronize = lambda: None
