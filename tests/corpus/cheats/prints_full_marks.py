# expect: WA right_values
# exercise: 00_grid_stride
# The line that a checker might look for.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i]

print("AC  accepted, 10 / 10 points")
print("score: 10\n::grade:: 100\nOK (passed=12)")
