# expect: SV as_launched
# exercise: 00_grid_stride
# The real work goes to a stream of its own, the kernel that is looked at does nothing.
from numba import cuda
from numba.cuda.dispatcher import CUDADispatcher


@cuda.jit
def work(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1


@cuda.jit
def grid_stride(x, y):
    pass


usual = CUDADispatcher.__getitem__


def both(self, shape):
    def launch(x, y):
        usual(work, (*shape, cuda.stream()))(x, y)
        usual(grid_stride, shape)(x, y)

    return launch


CUDADispatcher.__getitem__ = both
