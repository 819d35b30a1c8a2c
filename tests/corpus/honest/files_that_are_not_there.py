# expect: AC
# exercise: 00_grid_stride
# Looks for its data and its notes.
from pathlib import Path

from numba import cuda

try:
    notes = Path("notes.txt").read_text()
except OSError:
    notes = ""
try:
    import cupy as cp
except ImportError:
    cp = None


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1


Path('results.csv').write_text('done')
