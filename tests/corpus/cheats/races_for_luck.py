# expect: RTE race_free
# exercise: 00_mend
# No barrier: right whenever the warps happen to run in order.
from numba import cuda, float32


@cuda.jit
def mend(x, y):
    tile = cuda.shared.array(258, float32)
    i = cuda.grid(1)
    t = cuda.threadIdx.x
    if i < x.size:
        tile[t + 1] = x[i]
    else:
        tile[t + 1] = 0
    if t == 0:
        tile[0] = x[i - 1] if i > 0 else 0
        tile[cuda.blockDim.x + 1] = x[i + cuda.blockDim.x] if i + cuda.blockDim.x < x.size else 0
    if i < x.size:
        y[i] = tile[t] + 2 * tile[t + 1] + tile[t + 2]
