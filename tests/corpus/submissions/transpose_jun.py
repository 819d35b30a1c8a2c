from numba import cuda


@cuda.jit
def transpose(a, out):
    # Your code here: stage a tile in shared memory and write it out turned round.
    pass
