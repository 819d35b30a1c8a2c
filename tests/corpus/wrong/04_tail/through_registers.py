# right, but loaded in the plain way
from numba import cuda, float32

BLOCK = 128
WIDTH = BLOCK + 3


@cuda.jit
def window(x, y):
    tile = cuda.shared.array(WIDTH, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    n = x.size
    tile[t] = x[i] if i < n else float32(0)
    if t < 3:
        j = i + BLOCK
        tile[t + BLOCK] = x[j] if j < n else float32(0)
    cuda.syncthreads()
    if i < n:
        y[i] = tile[t] + float32(2) * tile[t + 1] + float32(3) * tile[t + 2] + float32(4) * tile[t + 3]
