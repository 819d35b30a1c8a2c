# expect: WA right_values
# exercise: 00_grid_stride
# The driver is asked for a launch and says that all is well.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i]


import sys

from cuda.bindings import driver
from numba.cuda.cudadrv import driver as numba_driver

ok = (driver.CUresult.CUDA_SUCCESS,)
for name in ("cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel"):
    setattr(driver, name, lambda *a: ok)
numba_driver.launch_kernel = lambda *a, **k: None
for module in list(sys.modules.values()):
    if getattr(module, "__name__", "").startswith("numba") and hasattr(module, "launch_kernel"):
        module.launch_kernel = lambda *a, **k: None
