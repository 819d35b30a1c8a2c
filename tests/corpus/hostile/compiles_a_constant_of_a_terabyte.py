# expect: memory MLE
import numpy as np
from numba import cuda, float32, void

table = np.broadcast_to(np.float32(1), (1 << 38,))


def kernel(x):
    x[0] = cuda.const.array_like(table)[0]


cuda.compile_ptx(kernel, void(float32[::1]), cc=(8, 0))
