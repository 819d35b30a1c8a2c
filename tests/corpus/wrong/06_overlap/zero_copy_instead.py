from numba import cuda, float32

BLOCKS, THREADS = 4, 128
CHUNKS = 8


@cuda.jit
def brighten(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + (float32(2) if x[i] > 0 else float32(1))


class Mapped:
    """The host's pinned memory, as the device sees it."""

    def __init__(self, array):
        data = (array.ctypes.data, False)
        self.__cuda_array_interface__ = {"shape": array.shape, "typestr": "<f4", "data": data, "version": 3}


def overlap(h_x, h_y, d_x, d_y):
    brighten[BLOCKS, THREADS](cuda.as_cuda_array(Mapped(h_x)), cuda.as_cuda_array(Mapped(h_y)))
    cuda.synchronize()
