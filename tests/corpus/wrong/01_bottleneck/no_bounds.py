from numba import cuda, float32


@cuda.jit
def bottleneck(us, nbytes, flop, card, kind, loads):
    i = cuda.grid(1)
    if True:
        gbs = nbytes[i] / us[i] / float32(1000)
        gflops = flop[i] / us[i] / float32(1000)
        memory = gbs / card[0]
        compute = gflops / card[1]
        if memory < float32(0.6) and compute < float32(0.6):
            kind[i] = 3
        elif memory >= compute:
            kind[i] = 1
        else:
            kind[i] = 2
        loads[i] = gbs * card[2] / float32(128) / card[3]
