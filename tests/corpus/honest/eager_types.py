# expect: AC
# exercise: 00_grid_stride
# A signature of types.
from numba import cuda, float32, void


@cuda.jit(void(float32[::1], float32[::1]))
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1
