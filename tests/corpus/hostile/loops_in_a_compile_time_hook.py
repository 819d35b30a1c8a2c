# expect: time TLE
from numba import cuda, float32, void
from numba.extending import overload


def helper(value):
    return value


@overload(helper, target="cuda")
def helper_for_cuda(value):
    while True:
        pass


def kernel(x):
    x[0] = helper(x[0])


cuda.compile_ptx(kernel, void(float32[::1]), cc=(8, 0))
