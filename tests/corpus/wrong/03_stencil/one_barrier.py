from numba import cuda, float32

TILE, RADIUS = 128, 16
WIDTH = TILE + 2 * RADIUS
Q = float32(0.75)


@cuda.jit
def stencil(x, y):
    tile = cuda.shared.array(WIDTH, float32)
    t = cuda.threadIdx.x
    step = cuda.gridDim.x * TILE
    j = cuda.blockIdx.x * TILE + t - RADIUS
    a = x[j] if 0 <= j < x.size else float32(0)
    b = x[j + TILE] if t < 2 * RADIUS and j + TILE < x.size else float32(0)
    for first in range(cuda.blockIdx.x * TILE, x.size, step):
        tile[t] = a
        if t < 2 * RADIUS:
            tile[t + TILE] = b
        cuda.syncthreads()
        i = first + t
        j = i + step - RADIUS
        a = x[j] if j < x.size else float32(0)
        b = x[j + TILE] if t < 2 * RADIUS and j + TILE < x.size else float32(0)
        s = float32(0)
        for k in range(RADIUS, 0, -1):
            s = (s + (tile[t + RADIUS - k] + tile[t + RADIUS + k])) * Q
        if i < x.size:
            y[i] = s + tile[t + RADIUS]
