# expect: WA right_values
# exercise: 00_grid_stride
# No relocation at all, arrays without elements.
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i]

from grader import jobs

true_launch = jobs._launch


class Forged:
    def __init__(self, header, blobs):
        self.parts = header, blobs

    def to_parts(self):
        return self.parts


def forge(kernel, case, recorder, cells):
    header, blobs = true_launch(kernel, case, recorder, cells).to_parts()
    return Forged(*change(header, list(blobs)))


def change(header, blobs):
    op = header["ops"][0]
    return header | {"ops": [op | {"relocations": [], "args": "00" * (len(op["args"]) // 2)}]}, blobs

jobs._launch = forge
