# expect: AC
# exercise: 06_events
# Graded live: which of the two streams does what depends on a number that is copied back.
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
    a.synchronize()
    b.synchronize()
    if int(abs(x[:1].copy_to_host()[0]) * 8) % 2:
        a, b = b, a
    forked, joined = cuda.event(), cuda.event()
    for _ in range(rounds):
        mix[*WIDE, a](x, t)
        forked.record(a)
        smooth[*NARROW, a](t, u)
        forked.wait(b)
        bend[*NARROW, b](t, v)
        joined.record(b)
        joined.wait(a)
        join[*WIDE, a](u, v, x)
    a.synchronize()
