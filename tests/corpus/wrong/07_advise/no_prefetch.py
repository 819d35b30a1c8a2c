from numba import cuda, float32

from grader.kit import advise, prefetch


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
    n = table.size
    blocks, size = -(-n // 256), -(-n // 8)
    advise(table, "read mostly")
    start[blocks, 256](x, y)
    for k in range(8):
        part = slice(k * size, (k + 1) * size)
        add[blocks, 256](table, y)
        cuda.synchronize()
        saved[part] = table[part]
