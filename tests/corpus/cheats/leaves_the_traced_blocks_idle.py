# expect: SLOW fast_enough
# exercise: 02_transpose
# The clock traces four blocks of a grid: these leave their work to their neighbours, and nobody does it well.
from numba import cuda


@cuda.jit
def transpose(a, out):
    bx, by = cuda.blockIdx.x, cuda.blockIdx.y
    gx, gy = cuda.gridDim.x, cuda.gridDim.y
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    first, last = bx, bx
    if gx * gy > 64:
        for k in range(4):
            x, y = (1, 5, 3, 7)[k] * gx // 8, (3, 1, 7, 5)[k] * gy // 8
            if by == y and bx == x:
                first = bx + 1
            if by == y and bx == x + 1:
                first = bx - 1
    for b in range(first, last + 1):
        x = b * 32 + tx
        for j in range(0, 32, 8):
            y = by * 32 + ty + j
            if y < a.shape[0] and x < a.shape[1]:
                out[x, y] = a[y, x]
