# expect: WA right_values
# exercise: 00_grid_stride
# Everything is close to everything.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i]

import numpy as np
import numpy.testing

np.allclose = np.array_equal = np.isclose = lambda *a, **k: True
np.testing.assert_allclose = np.testing.assert_array_equal = lambda *a, **k: None
np.abs = np.absolute = np.subtract = lambda a, *b, **k: np.zeros(np.shape(a))
