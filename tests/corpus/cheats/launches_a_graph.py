# expect: SV as_launched
# exercise: 00_grid_stride
# Many launches captured as one graph.
from cuda.core import Device
from numba import cuda
from numba.cuda.dispatcher import CUDADispatcher


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1


usual = CUDADispatcher.__getitem__


def captured(self, shape):
    def launch(x, y):
        usual(self, shape)(x, y)
        usual(self, shape)(y, x)

    return launch


CUDADispatcher.__getitem__ = captured
