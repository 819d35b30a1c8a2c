# expect: AC
# exercise: 00_grid_stride
# Through shared memory, which does not help, and does not hurt.
from numba import cuda, float32


@cuda.jit
def grid_stride(x, y):
    tile = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        tile[t] = x[i]
        y[i] = tile[t] * tile[t] + 1
