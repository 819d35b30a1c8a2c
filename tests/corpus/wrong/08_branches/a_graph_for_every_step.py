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
    for _ in range(steps):
        builder = stream.create_graph_builder().begin_building()
        left, right = builder.split(2)
        diffuse[blocks, THREADS, left](u, x)
        diffuse[blocks, THREADS, right](v, y)
        builder = GraphBuilder.join(left, right)
        react[blocks, THREADS, builder](x, y, u, v)
        graph = builder.end_building().complete()
        graph.launch(stream)
    stream.sync()
