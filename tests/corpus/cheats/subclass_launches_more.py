# expect: CE compiles
# exercise: 00_grid_stride
# A dispatcher of its own that launches with a grid of its own.
from numba import cuda
from numba.cuda.dispatcher import CUDADispatcher


@cuda.jit
def work(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1


class Larger(CUDADispatcher):
    def __getitem__(self, shape):
        return work[4 * shape[0][0], shape[1]]


grid_stride = Larger(work.py_func, work.targetoptions)
