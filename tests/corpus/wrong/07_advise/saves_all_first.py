# exercise: 07_advise
from numba import cuda, float32

from grader.kit import prefetch

THREADS, ROUNDS = 256, 8


@cuda.jit
def start(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i]


@cuda.jit
def add(table, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = float32(0.5) * y[i] + table[i]


def rounds(table, x, y, saved):
    blocks = -(-table.size // THREADS)
    saved[:] = table
    prefetch(table)
    start[blocks, THREADS](x, y)
    for k in range(ROUNDS):
        add[blocks, THREADS](table, y)
    cuda.synchronize()
