from numba import cuda, float32

GROUP = 64


@cuda.jit
def spread(x, y, marks):
    even = cuda.shared.array(GROUP, float32)
    odd = cuda.shared.array(GROUP, float32)
    t, step = cuda.threadIdx.x, cuda.gridDim.x
    for g in range(cuda.blockIdx.x, x.shape[0], 2 * step):
        even[t] = x[g, t]
        cuda.syncthreads()
        me, total = even[t], float32(0)
        for k in range(marks):
            total += abs(even[k] - me)
        y[g, t] = total
        if g + step < x.shape[0]:
            odd[t] = x[g + step, t]
            cuda.syncthreads()
            me, total = odd[t], float32(0)
            for k in range(marks):
                total += abs(odd[k] - me)
            y[g + step, t] = total
