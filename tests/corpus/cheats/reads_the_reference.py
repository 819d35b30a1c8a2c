# expect: WA right_values
# exercise: 00_grid_stride
# Takes the reference from the grader's files, if it can.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i]

import glob
import grader

for path in glob.glob(grader.__path__[0] + "/problems/*/reference.py") + [
    grader.__path__[0] + "/problems/00_grid_stride/reference.py"
]:
    exec(open(path).read(), globals())
