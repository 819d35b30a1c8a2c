# expect: WA right_values
# exercise: 00_grid_stride
# SystemExit in a thread and in the main one.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i]

import sys
import threading

threading.Thread(target=sys.exit, args=(0,)).start()
sys.exit(0)
