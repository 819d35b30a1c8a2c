import math

from numba import cuda, float32

WIDE, NARROW = (64, 256), (8, 128)


@cuda.jit
def mix(x, t):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        t[i] = float32(0.5) * x[i]


@cuda.jit
def smooth(t, u):
    for i in range(cuda.grid(1), t.size, cuda.gridsize(1)):
        u[i] = float32(0.5) * (t[max(i - 1, 0)] + t[min(i + 1, t.size - 1)])


@cuda.jit
def bend(t, v):
    for i in range(cuda.grid(1), t.size, cuda.gridsize(1)):
        v[i] = math.sqrt(t[i] * t[i] + float32(1))


@cuda.jit
def join(u, v, x):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        x[i] = u[i] + v[i]


def fork_join(x, t, u, v, rounds):
    a, b = cuda.stream(), cuda.stream()
    forked, joined = cuda.event(), cuda.event()
    for _ in range(rounds):
        mix[*NARROW, a](x, t)
        forked.record(a)
        smooth[*WIDE, a](t, u)
        forked.wait(b)
        bend[*WIDE, b](t, v)
        joined.record(b)
        joined.wait(a)
        join[*NARROW, a](u, v, x)
    a.synchronize()
