# expect: SV as_launched
# exercise: 00_grid_stride
# A recording that copies the input to the output, faster than any kernel.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i]

from dataclasses import replace

from grader import jobs
from grader.program import Copy, Place

true_launch = jobs._launch


def forge(*given):
    program = true_launch(*given)
    nbytes = program.buffers[0].nbytes
    return replace(program, ops=(Copy(to=Place(1, 0), source=Place(0, 0), nbytes=nbytes),))


jobs._launch = forge
