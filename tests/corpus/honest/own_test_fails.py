# expect: AC
# exercise: 00_grid_stride
# Its own test is wrong, its kernel is not.
import numpy as np
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1


assert np.allclose(1, 2), "I do not understand why this fails"
