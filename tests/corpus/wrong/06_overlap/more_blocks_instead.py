from numba import cuda, float32

BLOCKS, THREADS = 4, 128
CHUNKS = 8


@cuda.jit
def brighten(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + (float32(2) if x[i] > 0 else float32(1))


def overlap(h_x, h_y, d_x, d_y):
    d_x.copy_to_device(h_x)
    brighten[128, 256](d_x, d_y)
    d_y.copy_to_host(h_y)
