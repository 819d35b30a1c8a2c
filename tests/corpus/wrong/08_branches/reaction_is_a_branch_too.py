from cuda.core import Device
from cuda.core.graph import GraphBuilder
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
    device = Device()
    device.set_current()
    stream = device.create_stream()
    builder = stream.create_graph_builder().begin_building()
    left, right, third = builder.split(3)
    diffuse[blocks, THREADS, left](u, x)
    diffuse[blocks, THREADS, right](v, y)
    react[blocks, THREADS, third](x, y, u, v)
    builder = GraphBuilder.join(left, right, third)
    graph = builder.end_building().complete()
    for _ in range(steps):
        graph.launch(stream)
    stream.sync()
