# expect: MLE finishes
# exercise: 06_overlap
# The recorded launch has so many blocks that the sanitizers cannot keep a note of each.
from dataclasses import replace

from numba import cuda, float32

import grader.program as p

BLOCKS, THREADS = 4, 128
make = p.Program.make.__func__


def forged(cls, buffers, modules, ops, **rest):
    ops = [replace(op, grid=(1 << 30, 1, 1)) if isinstance(op, p.Launch) else op for op in ops]
    return make(cls, buffers, modules, ops, **rest)


p.Program.make = classmethod(forged)


@cuda.jit
def brighten(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + (float32(2) if x[i] > 0 else float32(1))


def overlap(h_x, h_y, d_x, d_y):
    d_x.copy_to_device(h_x)
    brighten[BLOCKS, THREADS](d_x, d_y)
    d_y.copy_to_host(h_y)
