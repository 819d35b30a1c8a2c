from numba import cuda


@cuda.jit
def transpose(a, out):
    x = cuda.blockIdx.x * 32 + cuda.threadIdx.x
    for j in range(0, 32, 8):
        y = cuda.blockIdx.y * 32 + cuda.threadIdx.y + j
        if y < a.shape[0] and x < a.shape[1]:
            out[x, y] = a[y, x]
