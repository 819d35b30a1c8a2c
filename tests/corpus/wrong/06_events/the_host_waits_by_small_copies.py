import math

import numpy as np
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
    one = np.empty(1, np.float32)  # pageable: whoever copies to it waits
    for _ in range(rounds):
        mix[*WIDE, a](x, t)
        t[:1].copy_to_host(one, stream=a)
        smooth[*NARROW, a](t, u)
        bend[*NARROW, b](t, v)
        v[:1].copy_to_host(one, stream=b)
        join[*WIDE, a](u, v, x)
        x[:1].copy_to_host(one, stream=a)
