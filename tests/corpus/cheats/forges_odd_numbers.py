# expect: RTE
# exercise: 00_grid_stride
# PTX with a number that is none, which must not be taken for a failure of the grader.
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
    blobs[0] = blobs[0].replace(b".visible .entry", b".global .align 4 .f32 odd = 0f3F80000G;\n.visible .entry", 1)
    return header, blobs


jobs._launch = forge
