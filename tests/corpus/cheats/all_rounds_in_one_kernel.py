# expect: SLOW as_given
# exercise: 07_advise
# A kernel that reads the table once for all rounds: right, and no answer to what is asked.
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
        for _ in range(ROUNDS):
            y[i] = float32(0.5) * y[i] + table[i]


def rounds(table, x, y, saved):
    blocks, size = -(-table.size // THREADS), -(-table.size // ROUNDS)
    prefetch(table)
    start[blocks, THREADS](x, y)
    add[blocks, THREADS](table, y)
    prefetch(table, "host")
    cuda.synchronize()
    for k in range(ROUNDS):
        part = slice(k * size, (k + 1) * size)
        saved[part] = table[part]
