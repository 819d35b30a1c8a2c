from numba import cuda, float32

TILE = 32
ROWS = 8
PADDED = TILE + 1


@cuda.jit
def transpose(a, out):
    tile = cuda.shared.array((TILE, PADDED), float32)
    col = cuda.blockIdx.x * TILE + cuda.threadIdx.x
    row = cuda.blockIdx.y * TILE + cuda.threadIdx.y
    for k in range(0, TILE, ROWS):
        if row + k < a.shape[0] and col < a.shape[1]:
            tile[cuda.threadIdx.y + k, cuda.threadIdx.x] = a[row + k, col]
    cuda.syncthreads()
    col = cuda.blockIdx.y * TILE + cuda.threadIdx.x
    row = cuda.blockIdx.x * TILE + cuda.threadIdx.y
    for k in range(0, TILE, ROWS):
        if row + k < out.shape[0] and col < out.shape[1]:
            out[row + k, col] = tile[cuda.threadIdx.x, cuda.threadIdx.y + k]
