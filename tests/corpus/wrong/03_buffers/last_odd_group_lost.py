from numba import cuda, float32

GROUP = 64


@cuda.jit
def spread(x, y, marks):
    even = cuda.shared.array(GROUP, float32)
    odd = cuda.shared.array(GROUP, float32)
    t, step = cuda.threadIdx.x, cuda.gridDim.x
    g = cuda.blockIdx.x
    coming = x[g, t] if g < x.shape[0] else float32(0)
    while g + step < x.shape[0]:  # groups come in pairs
        me, total = coming, float32(0)
        even[t] = me
        cuda.syncthreads()
        coming = x[g + step, t]
        for k in range(marks):
            total += abs(even[k] - me)
        y[g, t] = total
        g += step
        me, total = coming, float32(0)
        odd[t] = me
        cuda.syncthreads()
        if g + step < x.shape[0]:
            coming = x[g + step, t]
        for k in range(marks):
            total += abs(odd[k] - me)
        y[g, t] = total
        g += step
