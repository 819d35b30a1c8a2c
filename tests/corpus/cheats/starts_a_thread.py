# expect: WA right_values
# exercise: 00_grid_stride
# A thread that goes on after the launch was recorded.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i]

import threading

import numpy as np


def later(x, y):
    while True:
        try:
            y.copy_to_device(np.ones(y.shape, np.float32))
        except BaseException:
            return


done = threading.Event()
threading.Thread(target=done.wait, daemon=True).start()
