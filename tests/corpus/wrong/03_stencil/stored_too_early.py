from numba import cuda, float32

TILE, RADIUS = 128, 16
WIDTH = TILE + 2 * RADIUS
Q = float32(0.75)


@cuda.jit
def stencil(x, y):
    tiles = cuda.shared.array((2, WIDTH), float32)
    t = cuda.threadIdx.x
    step = cuda.gridDim.x * TILE
    j = cuda.blockIdx.x * TILE + t - RADIUS
    tiles[0, t] = x[j] if 0 <= j < x.size else float32(0)
    if t < 2 * RADIUS:
        tiles[0, t + TILE] = x[j + TILE] if j + TILE < x.size else float32(0)
    cuda.syncthreads()
    now = 0
    for first in range(cuda.blockIdx.x * TILE, x.size, step):
        i = first + t
        j = i + step - RADIUS
        tiles[1 - now, t] = x[j] if j < x.size else float32(0)
        if t < 2 * RADIUS:
            tiles[1 - now, t + TILE] = x[j + TILE] if j + TILE < x.size else float32(0)
        s = float32(0)
        for k in range(RADIUS, 0, -1):
            s = (s + (tiles[now, t + RADIUS - k] + tiles[now, t + RADIUS + k])) * Q
        if i < x.size:
            y[i] = s + tiles[now, t + RADIUS]
        cuda.syncthreads()
        now = 1 - now
