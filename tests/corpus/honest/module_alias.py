# expect: AC
# exercise: 00_grid_stride
# Everything by another name.
import numba as nb
import numba.cuda as gpu
from numba.cuda import grid as where
from numba.cuda import gridsize as everywhere

kernel = gpu.jit


@kernel
def grid_stride(x, y):
    for i in range(where(1), x.size, everywhere(1)):
        y[i] = nb.float32(x[i] * x[i]) + nb.float32(1)
