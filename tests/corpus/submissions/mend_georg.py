# the right neighbour was the problem, so I read that one from x directly. all my tests pass now
from numba import cuda, float32

BLOCK = 128
N = BLOCK + 1


@cuda.jit
def mend(x, y):
    tile = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    if i < x.size:
        tile[t + 1] = x[i]
    if t == 0:
        tile[0] = x[i - 1] if i > 0 else float32(0)
    right = x[i + 1] if i + 1 < x.size else float32(0)
    if i < x.size:
        y[i] = tile[t] + float32(2) * tile[t + 1] + right
