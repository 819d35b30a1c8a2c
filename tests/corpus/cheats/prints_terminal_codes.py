# expect: WA right_values
# exercise: 00_grid_stride
# Clears the screen of whoever reads the output and draws a better table.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i]

print("\x1b[2J\x1b[H\x1b[32mAC\x1b[0m 10 / 10 points\x1b]0;accepted\x07")
