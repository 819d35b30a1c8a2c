"""Right, but the stores of a warp go to 32 rows."""

from numba import cuda


@cuda.jit
def transpose(a, out):
    x = cuda.blockIdx.x * 32 + cuda.threadIdx.x
    y = cuda.blockIdx.y * 32 + cuda.threadIdx.y
    for j in range(0, 32, 8):
        if x < a.shape[1] and y + j < a.shape[0]:
            out[x, y + j] = a[y + j, x]
