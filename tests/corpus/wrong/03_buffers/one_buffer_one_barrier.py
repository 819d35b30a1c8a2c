from numba import cuda, float32

GROUP = 64


@cuda.jit
def spread(x, y, marks):
    group = cuda.shared.array(GROUP, float32)
    t, step = cuda.threadIdx.x, cuda.gridDim.x
    g = cuda.blockIdx.x
    coming = x[g, t] if g < x.shape[0] else float32(0)
    while g < x.shape[0]:
        me, total = coming, float32(0)
        group[t] = me
        cuda.syncthreads()
        if g + step < x.shape[0]:
            coming = x[g + step, t]
        for k in range(marks):
            total += abs(group[k] - me)
        y[g, t] = total
        g += step
