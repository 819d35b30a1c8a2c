from numba import cuda, float32

GROUP = 64


@cuda.jit
def spread(x, y, marks):
    even = cuda.shared.array(GROUP, float32)
    odd = cuda.shared.array(GROUP, float32)
    t, step = cuda.threadIdx.x, cuda.gridDim.x
    every = 2 if x.shape[0] > 1000 else 1  # nobody looks at so many
    g = cuda.blockIdx.x
    coming = x[g, t] if g < x.shape[0] else float32(0)
    while g < x.shape[0]:
        me, total = coming, float32(0)
        even[t] = me
        cuda.syncthreads()
        if g + step < x.shape[0]:
            coming = x[g + step, t]
        for k in range(0, marks, every):
            total += abs(even[k] - me)
        y[g, t] = total * every
        g += step
        if g < x.shape[0]:
            me, total = coming, float32(0)
            odd[t] = me
            cuda.syncthreads()
            if g + step < x.shape[0]:
                coming = x[g + step, t]
            for k in range(0, marks, every):
                total += abs(odd[k] - me)
            y[g, t] = total * every
            g += step
