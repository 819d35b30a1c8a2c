import numpy as np
from numba import cuda, float32

TILE = 16


@cuda.jit
def matmul(a, b, c):
    ta = cuda.shared.array((TILE, TILE), np.float16)
    tb = cuda.shared.array((TILE, TILE), np.float16)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    x, y = cuda.grid(2)
    s = float32(0)
    for k in range(0, a.shape[1], TILE):
        ta[ty, tx] = a[y, k + tx] if y < a.shape[0] and k + tx < a.shape[1] else float32(0)
        tb[ty, tx] = b[k + ty, x] if k + ty < b.shape[0] and x < b.shape[1] else float32(0)
        cuda.syncthreads()
        for j in range(TILE):
            s += float32(ta[ty, j]) * float32(tb[j, tx])
        cuda.syncthreads()
    if y < c.shape[0] and x < c.shape[1]:
        c[y, x] = s
