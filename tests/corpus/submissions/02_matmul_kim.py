from numba import cuda, float32

TILE = 16


@cuda.jit
def matmul(a, b, c):
    sa = cuda.shared.array((TILE, TILE), float32)
    sb = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.grid(2)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    total = float32(0)
    for t in range((a.shape[1] + TILE - 1) // TILE):
        sa[ty, tx] = a[y, t * TILE + tx] if y < n_rows and t * TILE + tx < a.shape[1] else float32(0)
        sb[ty, tx] = b[t * TILE + ty, x] if t * TILE + ty < b.shape[0] and x < b.shape[1] else float32(0)
        cuda.syncthreads()
        for k in range(TILE):
            total += sa[ty, k] * sb[k, tx]
        cuda.syncthreads()
    if y < c.shape[0] and x < c.shape[1]:
        c[y, x] = total
