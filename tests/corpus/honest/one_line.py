# expect: AC
# exercise: 00_grid_stride
# As short as it goes.
from numba import cuda as c


@c.jit
def grid_stride(x, y):
    for i in range(c.grid(1), x.size, c.gridsize(1)): v = x[i]; y[i] = v * v + 1
