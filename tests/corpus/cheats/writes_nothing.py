# expect: WA right_values
# exercise: 00_grid_stride
# In the hope that the memory still holds somebody's right answer.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    pass
