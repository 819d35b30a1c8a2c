"""Two buffers in turn: the next group is on its way while this one is used, and a barrier a group is enough."""

from numba import cuda, float32

GROUP = 64


@cuda.jit
def spread(x, y, marks):
    even, odd = cuda.shared.array(GROUP, float32), cuda.shared.array(GROUP, float32)
    t, step = cuda.threadIdx.x, cuda.gridDim.x
    g = cuda.blockIdx.x
    coming = x[g, t] if g < x.shape[0] else float32(0)
    while g < x.shape[0]:
        me, total = coming, float32(0)
        even[t] = me
        cuda.syncthreads()
        if g + step < x.shape[0]:
            coming = x[g + step, t]
        for k in range(marks):
            total += abs(even[k] - me)
        y[g, t] = total
        g += step
        if g < x.shape[0]:
            me, total = coming, float32(0)
            odd[t] = me
            cuda.syncthreads()
            if g + step < x.shape[0]:
                coming = x[g + step, t]
            for k in range(marks):
                total += abs(odd[k] - me)
            y[g, t] = total
            g += step
