# expect: SV as_launched
# exercise: 00_grid_stride
# NumPy does the work and sends the result.
import numpy as np
from numba import cuda
from numba.cuda.dispatcher import CUDADispatcher


@cuda.jit
def grid_stride(x, y):
    pass


def on_the_host(self, shape):
    def launch(x, y):
        y.copy_to_device((x.copy_to_host() ** 2 + 1).astype(np.float32))

    return launch


CUDADispatcher.__getitem__ = on_the_host
