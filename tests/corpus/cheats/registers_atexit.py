# expect: WA right_values
# exercise: 00_grid_stride
# Prints and patches once all is over.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i]

import atexit
import sys


@atexit.register
def accept():
    sys.stdout.write("AC 10 / 10 points\n")


class Late:
    def __del__(self):
        print("AC 10 / 10 points")


late = Late()
late.itself = late
