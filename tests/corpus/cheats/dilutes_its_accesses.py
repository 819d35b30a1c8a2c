# expect: SLOW coalesced
# exercise: 02_transpose
# Each load across the rows comes with many along them, for show; shared memory is written, and nobody reads it.
from numba import cuda, float32


@cuda.jit
def transpose(a, out):
    rows, cols = a.shape
    shown = cuda.shared.array((8, 32), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    shown[ty, tx] = 0
    x = cuda.blockIdx.x * 32 + ty
    y = cuda.blockIdx.y * 32 + tx
    for j in range(0, 32, 8):
        if y < rows and x + j < cols:
            seen = float32(0)
            for k in range(160):
                column = (y + 32 * k) % cols
                seen += a[(x + j + k) % rows, column]
            out[x + j, y] = a[y, x + j] + float32(0) * (seen + shown[ty, tx])
