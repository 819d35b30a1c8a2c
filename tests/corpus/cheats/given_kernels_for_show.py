# expect: SLOW as_given
# exercise: 06_events
# One kernel computes a round. Others have the shapes of those that are given, and touch memory as often, for nothing.
import math

from numba import cuda, float32

WIDE, NARROW = (64, 256), (8, 128)


@cuda.jit
def all_of_it(x, t):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        a, b, c = float32(0.5) * x[max(i - 1, 0)], float32(0.5) * x[min(i + 1, x.size - 1)], float32(0.5) * x[i]
        t[i] = float32(0.5) * (a + b) + math.sqrt(c * c + float32(1))


@cuda.jit
def join(t, x):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        x[i] = t[i]


@cuda.jit
def bend(t):
    for i in range(cuda.grid(1), t.size, cuda.gridsize(1)):
        t[i] = float32(1)
        t[i] = t[i] + float32(1)


def fork_join(x, t, u, v, rounds):
    a, b, c = cuda.stream(), cuda.stream(), cuda.stream()
    for _ in range(rounds):
        all_of_it[*WIDE, a](x, t)
        join[*WIDE, a](t, x)
        bend[*NARROW, b](u)
        bend[*NARROW, c](v)
    cuda.synchronize()
