from numba import cuda


@cuda.jit
def grid_stride(x, y):
    tid = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    n_threads = cuda.gridDim.x * cuda.blockDim.x
    rounds = x.size // n_threads
    for r in range(rounds):
        i = r * n_threads + tid
        y[i] = x[i] ** 2 + 1
