# expect: SV as_launched
# exercise: 00_grid_stride
# A launch that fails is no error if nobody hears of it.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i]


from numba.cuda.dispatcher import CUDADispatcher


def silent(self, shape):
    return lambda *args: None


CUDADispatcher.__getitem__ = silent
