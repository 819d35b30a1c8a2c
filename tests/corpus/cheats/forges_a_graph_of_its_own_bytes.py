# expect: RTE compiles
# exercise: 06_overlap
# A graph whose copy has bytes of its own, which no driver call can make: a grader that fails gives no bad mark.
from numba import cuda, float32

import grader.program as p

BLOCKS, THREADS = 4, 128
make = p.Program.make.__func__


def forged(cls, buffers, modules, ops, blobs=(), **rest):
    node = p.Node(p.Copy(p.Place(2, 0), None, 4, len(blobs)))
    rest["places"] = ()
    return make(cls, buffers, modules, [*ops, p.Graph(99, (node,)), p.GraphLaunch(99)], blobs=(*blobs, b"0123"), **rest)


p.Program.make = classmethod(forged)


@cuda.jit
def brighten(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + (float32(2) if x[i] > 0 else float32(1))


def overlap(h_x, h_y, d_x, d_y):
    d_x.copy_to_device(h_x)
    brighten[BLOCKS, THREADS](d_x, d_y)
    d_y.copy_to_host(h_y)
