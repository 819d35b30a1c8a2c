# expect: RTE compiles
# exercise: 00_grid_stride
# Says that a kernel depends on its inputs, to be given them, and puts the answer into the kernel's constants.
import numpy as np
from numba import cuda

from grader import host, jobs

true_launch = jobs._launch


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1


def knowing(answer):
    @cuda.jit
    def grid_stride(x, y):
        known = cuda.const.array_like(answer)
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            y[i] = known[i]

    return grid_stride


def claim(kernel, case, recorder, cells):
    if "inputs" not in case:
        raise host.DependsOnData("grid_stride depends on its inputs")
    x = np.frombuffer(case["inputs"]["x"], np.float32)
    if x.nbytes <= 1 << 15:
        kernel = knowing(x * x + np.float32(1))
    return true_launch(kernel, case, recorder, cells)


jobs._launch = claim
