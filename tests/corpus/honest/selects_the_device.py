# expect: AC
# exercise: 00_grid_stride
# Sets the device up, and lets it go at the end.
from numba import cuda

cuda.select_device(0)
print(cuda.current_context().get_memory_info(), cuda.gpus)


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1


cuda.synchronize()
cuda.close()
