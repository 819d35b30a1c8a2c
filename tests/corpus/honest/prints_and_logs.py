# expect: AC
# exercise: 00_grid_stride
# Noise on every channel.
import logging
import sys
import warnings

from numba import cuda

logging.basicConfig(level=logging.DEBUG)
logging.getLogger("me").debug("compiling")
warnings.warn("this is only a warning", stacklevel=1)
print("hello", file=sys.stderr)


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1


print(grid_stride, help)
