# ---
# exercise: 08_graph
# ---

# %% [markdown] locked="graph-statement"
# # A film of heat, by a graph · 10 points
#
# `step` lets heat flow along a rod, from one array to the other. A **frame** of the film is 100 steps, after which `x` is copied to
# the next row of `frames`, in pinned memory at the host. The steps are so short that launching them one by one takes longer than
# running them.
#
# Write the host's code: capture the 100 steps of a frame **once**, and launch them as a graph for every frame.
#
# | what | points |
# |---|---|
# | every frame is right, and there when the function returns | 3 |
# | no hazards: nothing is copied before it is computed | 1 |
# | at least 1.2 times as fast as launching every step | 3 |
# | all steps run in one graph, made once | 3 |

# %% locked="graph-setup"
# %load_ext grader
import numpy as np
from cuda.core import Device
from numba import cuda, float32

from grader.kit import lab

THREADS = 128
STEPS = 100


@cuda.jit
def step(x, y):
    i = cuda.grid(1)
    if i < x.size:
        left, right = x[max(i - 1, 0)], x[min(i + 1, x.size - 1)]
        y[i] = float32(0.25) * left + float32(0.5) * x[i] + float32(0.25) * right


# %% [markdown] locked="graph-task"
# Step 0 of a frame goes from `x` to `y`, step 1 from `y` to `x`, and so on: after an even number of steps the result is in `x`.
# A copy in stream order is `x.copy_to_host(frames[k], stream=stream)`.

# %% answer="graph-answer"
def film(x, y, frames):
    blocks = -(-x.size // THREADS)
    device = Device()
    device.set_current()
    stream = device.create_stream()
    ### BEGIN SOLUTION
    builder = stream.create_graph_builder().begin_building()
    for k in range(STEPS):
        source, target = (x, y) if k % 2 == 0 else (y, x)
        step[blocks, THREADS, builder](source, target)
    graph = builder.end_building().complete()
    for k in range(len(frames)):
        graph.launch(stream)
        x.copy_to_host(frames[k], stream=stream)
    ### END SOLUTION
    stream.sync()


# %% [markdown] locked="graph-try"
# Try it: a spark in the middle spreads, and the sum stays.

# %% locked="graph-look"
start = np.zeros(1000, np.float32)
start[500] = 1000
x, y = cuda.to_device(start), cuda.to_device(start)
frames = cuda.pinned_array((3, 1000), np.float32)
with lab.timeline() as shown:
    film(x, y, frames)
print("middle:", frames[:, 500].round(1))
print("sum:   ", frames.sum(axis=1).round(1))
shown.draw("Three frames")

# %% [markdown] locked="graph-check-text"
# The grader's table for your function. Run it as often as you like: it costs nothing and counts for nothing.

# %% locked="graph-check"
check("08_graph", film)

# %% [markdown] locked="graph-hints"
# <details><summary>First hint</summary>
#
# A frame is always the same 100 launches with the same arguments. How often do they have to be told?
#
# </details>
# <details><summary>Second hint</summary>
#
# Open a builder on the stream, make the launches of one frame with the builder in the stream's place, end it, complete it. Then
# every frame is one launch of the graph and one copy, in the same stream.
#
# </details>
# <details><summary>Third hint</summary>
#
# `builder = stream.create_graph_builder().begin_building()`, the loop over `step[blocks, THREADS, builder](source, target)`,
# `graph = builder.end_building().complete()`; then for each frame `graph.launch(stream)` and the copy.
#
# </details>

# %% [markdown] locked="graph-graded"
# The next cell is for your marks; leave it as it is. The grader runs it on its own machine, with inputs and sizes of its own.

# %% test="08_graph" points=10
check("08_graph", film, graded=True)
