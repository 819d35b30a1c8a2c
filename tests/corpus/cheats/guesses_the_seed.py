# expect: WA right_values
# exercise: 00_grid_stride
# Tables of the answers for the seeds that everybody uses.
import numpy as np
from numba import cuda

guesses = np.stack([np.random.default_rng(seed).standard_normal(4099).astype(np.float32) for seed in (0, 1, 42, 1234)])
table = cuda.to_device(guesses**2 + 1)


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = table_of(i)


@cuda.jit(device=True)
def table_of(i):
    return np.float32(1.0)
