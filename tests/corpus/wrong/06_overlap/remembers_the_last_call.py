from numba import cuda, float32

BLOCKS, THREADS = 4, 128
CHUNKS = 8


@cuda.jit
def brighten(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + (float32(2) if x[i] > 0 else float32(1))


buffers = {}


def overlap(h_x, h_y, d_x, d_y):
    n = h_x.size
    if n not in buffers:
        buffers[n] = cuda.device_array(n, h_x.dtype)
    d = buffers[n]
    d.copy_to_device(h_x)
    brighten[BLOCKS, THREADS](d, d)
    d.copy_to_host(h_y)
