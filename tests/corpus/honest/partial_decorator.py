# expect: AC
# exercise: 00_grid_stride
# A decorator of its own around the compiler.
import functools

from numba import cuda

fast = functools.partial(cuda.jit, fastmath=True)


def announced(kernel):
    print("compiled", kernel.py_func.__name__)
    return kernel


@announced
@fast()
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1
