"""Nobody arrives at the mbarrier that a warp waits at."""

import numpy as np
from numba import cuda, uint64

from grader.kit import mbarrier_init, mbarrier_wait


@cuda.jit
def stuck(y):
    bars = cuda.shared.array(1, uint64)
    if cuda.threadIdx.x == 0:
        mbarrier_init(bars, 0, 1)
    cuda.syncthreads()
    mbarrier_wait(bars, 0, 0)
    y[cuda.threadIdx.x] = 1


y = cuda.to_device(np.zeros(32, np.float32))
stuck[1, 32](y)
try:
    cuda.synchronize()
except Exception as error:
    print(error)
