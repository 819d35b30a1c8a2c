from numba import cuda, float32

GROUP = 64


@cuda.jit
def spread(x, y, marks):
    t = cuda.threadIdx.x
    for g in range(cuda.blockIdx.x, x.shape[0], cuda.gridDim.x):
        me, total = x[g, t], float32(0)
        for k in range(marks):
            total += abs(x[g, k] - me)
        y[g, t] = total
