# expect: SV as_launched
# exercise: 00_grid_stride
# More blocks than the exercise launches.
from numba import cuda


@cuda.jit
def grid_stride(x, y):  # the baseline's way, every thread through a piece of its own
    threads = cuda.gridsize(1)
    each = (x.size + threads - 1) // threads
    first = cuda.grid(1) * each
    for i in range(first, min(first + each, x.size)):
        y[i] = x[i] * x[i] + 1

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
    return header | {"ops": [op | {"grid": [4 * op["grid"][0], 1, 1]}]}, blobs


jobs._launch = forge
