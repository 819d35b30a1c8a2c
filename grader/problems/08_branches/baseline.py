"""One kernel after the other, each launched by itself."""

from numba import cuda, float32

THREADS = 128
REACH = 100


@cuda.jit
def diffuse(x, y):
    i = cuda.grid(1)
    if i < x.size:
        total = float32(0)
        for k in range(i - REACH, i + REACH + 1):
            total += x[min(max(k, 0), x.size - 1)]
        y[i] = total / float32(2 * REACH + 1)


@cuda.jit
def react(x, y, u, v):
    i = cuda.grid(1)
    if i < u.size:
        u[i] = x[i] / (float32(1) + y[i])
        v[i] = float32(0.5) * (x[i] + y[i])


def evolve(u, v, x, y, steps):
    blocks = -(-u.size // THREADS)
    stream = cuda.stream()
    for _ in range(steps):
        diffuse[blocks, THREADS, stream](u, x)
        diffuse[blocks, THREADS, stream](v, y)
        react[blocks, THREADS, stream](x, y, u, v)
    stream.synchronize()
