# ---
# exercise: 08_branches
# ---

# %% [markdown] locked="branches-statement"
# # Two branches of a graph · 10 points
#
# Two substances spread along a rod and react. In every **step**, `u` diffuses into `x`, `v` diffuses into `y`, and then both react:
# from `x` and `y` back to `u` and `v`. Each of these kernels is much too small to fill a GPU, and the two diffusions need nothing of
# each other; launched one after the other, they wait for each other all the same.
#
# Write the host's code: capture **one step** as a graph that forks into the two diffusions and joins before the reaction, and launch
# it for every step.
#
# | what | points |
# |---|---|
# | both arrays are right after all steps | 3 |
# | no hazards: nothing is read before it is computed | 1 |
# | at least 1.3 times as fast as one kernel after the other | 3 |
# | all kernels run in one graph, made once | 3 |

# %% locked="branches-setup"
# %load_ext grader
import numpy as np
from cuda.core import Device
from cuda.core.graph import GraphBuilder
from numba import cuda, float32

from grader.kit import lab

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


# %% [markdown] locked="branches-task"
# A builder takes the place of a stream in a launch: `diffuse[blocks, THREADS, builder](u, x)`. `builder.split(2)` gives two, and
# `GraphBuilder.join(left, right)` makes one of them again.

# %% answer="branches-answer"
def evolve(u, v, x, y, steps):
    blocks = -(-u.size // THREADS)
    device = Device()
    device.set_current()
    stream = device.create_stream()
    ### BEGIN SOLUTION
    builder = stream.create_graph_builder().begin_building()
    left, right = builder.split(2)
    diffuse[blocks, THREADS, left](u, x)
    diffuse[blocks, THREADS, right](v, y)
    builder = GraphBuilder.join(left, right)
    react[blocks, THREADS, builder](x, y, u, v)
    graph = builder.end_building().complete()
    for _ in range(steps):
        graph.launch(stream)
    ### END SOLUTION
    stream.sync()


# %% [markdown] locked="branches-try"
# Try it: where both substances are 1 everywhere, diffusion changes nothing, and a step makes `u` one half of what it was, and
# leaves `v` at 1. Then look at the boxes: which lie one above the other?

# %% locked="branches-look"
u, v = (cuda.to_device(np.ones(1000, np.float32)) for _ in "uv")
x, y = (cuda.to_device(np.zeros(1000, np.float32)) for _ in "xy")
evolve(u, v, x, y, 1)
print("after a step:", u.copy_to_host()[[0, 500, 999]], v.copy_to_host()[[0, 500, 999]])
with lab.timeline() as shown:
    evolve(u, v, x, y, 3)
shown.draw("Three steps")

# %% [markdown] locked="branches-check-text"
# The grader's table for your function. Run it as often as you like: it costs nothing and counts for nothing.

# %% locked="branches-check"
check("08_branches", evolve)

# %% [markdown] locked="branches-hints"
# <details><summary>First hint</summary>
#
# Draw the three kernels of a step as boxes, with an arrow wherever one reads what another wrote. Which two boxes have no arrow
# between them?
#
# </details>
# <details><summary>Second hint</summary>
#
# A builder is split in two, each branch gets its diffusion, and the join of the branches gets the reaction. Complete it once; then
# a step is one launch.
#
# </details>
# <details><summary>Third hint</summary>
#
# `left, right = builder.split(2); diffuse[blocks, THREADS, left](u, x)` and the same for `right`, `v` and `y`;
# `builder = GraphBuilder.join(left, right); react[blocks, THREADS, builder](x, y, u, v);`
# `graph = builder.end_building().complete()`
#
# </details>

# %% [markdown] locked="branches-graded"
# The next cell is for your marks; leave it as it is. The grader runs it on its own machine, with inputs and sizes of its own.

# %% test="08_branches" points=10
check("08_branches", evolve, graded=True)
