# %% [markdown]
# # 08 · Graphs
#
# **You will** record a sequence of launches once and replay it as one, see what that saves and where it saves nothing, fork and
# join work inside a graph, and meet the mistake that everybody makes: replaying yesterday's arguments.
#
# **You need** lessons 00 and 06 (streams and events).
#
# A launch is a message from the CPU to the GPU. It costs the CPU a few microseconds: arguments are copied, a command is written,
# the GPU fetches it. A kernel that runs for a millisecond does not care. A solver that makes ten thousand steps of five
# microseconds each spends its life on messages. A **graph** sends the whole sequence in one.

# %%
# %load_ext grader
import numpy as np
from cuda.core import Device
from cuda.core.graph import GraphBuilder
from numba import cuda

from grader.kit import lab

# %% [markdown]
# ## Many small steps
#
# Heat flows along a rod: each point moves towards the mean of its neighbours. A step reads one array and writes the other,
# so the two change places from step to step.

# %%
@cuda.jit
def step(x, y):
    i = cuda.grid(1)
    if 0 < i < x.size - 1:
        y[i] = np.float32(0.25) * x[i - 1] + np.float32(0.5) * x[i] + np.float32(0.25) * x[i + 1]


n, threads = 16_384, 128
blocks = n // threads
start = np.zeros(n, np.float32)
start[n // 2] = 1000                                    # a spark in the middle

device = Device(0)
device.set_current()
stream = device.create_stream()
a, b = cuda.to_device(start), cuda.to_device(start)
step[blocks, threads, stream](a, b)                     # compiled before we look
stream.sync()

# %% [markdown]
# **Predict.** Each of these kernels runs for about two microseconds. Twenty of them one after the other: how long does that take,
# if a launch costs about as much as the kernel itself?

# %%
steps = 20
with lab.timeline() as one_by_one:
    for k in range(steps):
        source, target = (a, b) if k % 2 == 0 else (b, a)
        step[blocks, threads, stream](source, target)
    stream.sync()

one_by_one.draw(f"{steps} launches")
print(f"{one_by_one.microseconds:.0f} us, {lab.how()}: {one_by_one.microseconds / steps:.2f} us a step")

# %% [markdown]
# The gaps between the boxes are **bubbles**: the GPU has nothing to do and waits for the next message. A faster kernel does not
# fill them. It makes them wider.
#
# ## Record once, launch as one
#
# 1. **Capture**: open a builder on the stream and make the same launches. They do not run; they are written down.
# 2. **Instantiate** (`complete()`): the driver checks the graph and prepares all that it will send.
# 3. **Launch**, as often as you like.

# %%
builder = stream.create_graph_builder()
builder.begin_building()
for k in range(steps):
    source, target = (a, b) if k % 2 == 0 else (b, a)
    step[blocks, threads, builder](source, target)      # a builder takes the stream's place
graph = builder.end_building().complete()

with lab.timeline() as as_graph:
    graph.launch(stream)
    stream.sync()

as_graph.draw(f"The same {steps} launches, one graph")
print(f"{as_graph.microseconds:.0f} us, {lab.how()}: {as_graph.microseconds / steps:.2f} us a step")
print(f"saved {(one_by_one.microseconds - as_graph.microseconds) / steps:.2f} us a step")

# %% [markdown]
# The boxes are as wide as before and stand closer together. That is all that a graph does for a chain of kernels: it takes
# away the message between them. (Mind the axis: the second picture is the shorter one.)
#
# Is it still right? Let the CPU make the same steps.

# %%
def on_cpu(x, count):
    for _ in range(count):
        x = x.copy()
        x[1:-1] = 0.25 * x[:-2] + 0.5 * x[1:-1] + 0.25 * x[2:]
    return x


a.copy_to_device(start)
b.copy_to_device(start)
for _ in range(5):
    graph.launch(stream)
stream.sync()
expected = on_cpu(start.astype(np.float64), 5 * steps)
print("right after 100 steps:", np.allclose(a.copy_to_host(), expected, rtol=1e-4))

# %% [markdown]
# ## Make it once
#
# To write a graph down and to instantiate it is work as well: the CPU's.
#
# **Predict.** The graph is launched ten times. What does it cost to make it anew for each launch, instead of once before the first?

# %%
def steps_as_graph():
    builder = stream.create_graph_builder()
    builder.begin_building()
    for k in range(steps):
        source, target = (a, b) if k % 2 == 0 else (b, a)
        step[blocks, threads, builder](source, target)
    return builder.end_building().complete()


with lab.timeline() as once:
    graph = steps_as_graph()
    for _ in range(10):
        graph.launch(stream)
    stream.sync()

with lab.timeline() as each_time:
    graphs = []
    for _ in range(10):
        graphs.append(steps_as_graph())
        graphs[-1].launch(stream)
    stream.sync()

each_time.draw("A new graph for every launch")
print(f"made once:       {once.microseconds:.0f} us, {lab.how()}")
print(f"made each time:  {each_time.microseconds:.0f} us")
print(f"without a graph: {10 * one_by_one.microseconds:.0f} us")

# %% [markdown]
# Between two launches the GPU waits while the CPU makes the next graph. What a graph saves at its first launch, it has cost before.
#
# ## When a graph does not help
#
# **Predict.** The saving is about the same for every step, whatever the step does. So for which sizes is it worth the trouble?

# %%
def compare(points):
    """Microseconds a step: launched one by one, and as a graph."""
    x, y = (cuda.to_device(np.ones(points, np.float32)) for _ in range(2))
    grid = points // threads
    step[grid, threads, stream](x, y)
    stream.sync()
    with lab.timeline() as plain:
        for k in range(10):
            step[grid, threads, stream](*((x, y) if k % 2 == 0 else (y, x)))
        stream.sync()
    gb = stream.create_graph_builder()
    gb.begin_building()
    for k in range(10):
        step[grid, threads, gb](*((x, y) if k % 2 == 0 else (y, x)))
    built = gb.end_building().complete()
    with lab.timeline() as replayed:
        built.launch(stream)
        stream.sync()
    return plain.microseconds / 10, replayed.microseconds / 10


sizes = [1 << k for k in range(14, 23, 2)]
both = [compare(points) for points in sizes]
lab.curves(sizes, {"one by one": [p for p, _ in both], "graph": [g for _, g in both]}, "points",
           f"microseconds a step, {lab.how()}", "The larger the step, the less a graph saves")
for points, (plain, replayed) in zip(sizes, both):
    print(f"{points:8} points: {plain:6.2f} and {replayed:6.2f} us a step, {plain / replayed:.2f} times")

# %% [markdown]
# Once a kernel runs longer than a launch takes, the next message arrives while it is still busy: there is no bubble left to
# remove. (A difference of a few per cent, as in the last two lines, is less than the model can tell.) **Graphs help many small
# kernels. They do nothing for few large ones.**
#
# ## Fork and join
#
# A graph is not only a chain. Two branches that need nothing of each other may run at the same time; a node after the join
# waits for both. The builder splits, and joins again.

# %%
@cuda.jit
def scale(x, f, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = f * x[i]


@cuda.jit
def add(x, y, z):
    i = cuda.grid(1)
    if i < x.size:
        z[i] = x[i] + y[i]


x = cuda.to_device(np.arange(n, dtype=np.float32))
left_out, right_out, total = (cuda.device_array(n, np.float32) for _ in range(3))
two, three = np.float32(2), np.float32(3)
scale[blocks, threads, stream](x, two, left_out)        # compile before the capture
add[blocks, threads, stream](left_out, left_out, total)
stream.sync()

builder = stream.create_graph_builder()
builder.begin_building()
left, right = builder.split(2)
scale[blocks, threads, left](x, two, left_out)
scale[blocks, threads, right](x, three, right_out)
builder = GraphBuilder.join(left, right)
add[blocks, threads, builder](left_out, right_out, total)
diamond = builder.end_building().complete()

with lab.timeline() as t:
    diamond.launch(stream)
    stream.sync()
t.draw("A fork and a join")
print("right:", np.array_equal(total.copy_to_host(), 5 * np.arange(n, dtype=np.float32)))

# %% [markdown]
# The boxes of the two branches lie one above the other: they run at the same time. Nobody wrote an event or a wait; the arrows
# of the graph say who waits for whom. What the branches gain depends on the card: two kernels that each fill it take turns however
# they are drawn.
#
# ## Yesterday's arguments
#
# A graph holds the **values of the arguments** at the time of the capture: numbers, and the addresses of arrays. What is *in*
# the arrays is read when the graph runs.
#
# **Predict.** The capture below uses `factor`. Then `factor` changes. What will the second line print?

# %%
factor = np.float32(10)
builder = stream.create_graph_builder()
builder.begin_building()
scale[blocks, threads, builder](x, factor, total)
stale = builder.end_building().complete()

stale.launch(stream)
stream.sync()
print("factor 10 :", total.copy_to_host()[1])

factor = np.float32(20)                                 # a new object: the graph has never heard of it
stale.launch(stream)
stream.sync()
print("factor 20?:", total.copy_to_host()[1])

# %% [markdown]
# Three ways out:
#
# * keep what changes **in memory** (an array of one element) and write to that, in stream order;
# * **update** the graph: capture again and give the new graph to the old executable. That is far cheaper than a new
#   instantiation, as long as the shape of the graph stays;
# * instantiate anew, when the shape changes.

# %%
builder = stream.create_graph_builder()
builder.begin_building()
scale[blocks, threads, builder](x, factor, total)
builder.end_building()
stale.update(builder)                                   # same shape, new values

stale.launch(stream)
stream.sync()
print("factor 20 :", total.copy_to_host()[1])

# %% [markdown]
# The other half of the rule is useful: since the *content* of arrays is read at launch, a pipeline captures once with fixed
# buffers and copies each new input into the same place. But an array that was freed in the meantime is still in the graph, as
# an address. Keep alive what a graph uses.
#
# Not everything can be captured: nothing that waits for the GPU (`synchronize`, a blocking copy, a query), and no
# allocation outside the stream's order. A capture that meets such a call is over, and every call on its stream fails until it is
# ended.
#
# ## The same in CUDA C++
#
# | here | CUDA C++ |
# |---|---|
# | `builder.begin_building()` | `cudaStreamBeginCapture(stream, mode)` |
# | `kernel[grid, block, builder](...)` | `kernel<<<grid, block, 0, stream>>>(...)` on the capturing stream |
# | `builder.end_building()` | `cudaStreamEndCapture(stream, &graph)` |
# | `.complete()` | `cudaGraphInstantiate(&exec, graph, 0)` |
# | `graph.launch(stream)` | `cudaGraphLaunch(exec, stream)` |
# | `builder.split(2)`, `GraphBuilder.join(...)` | `cudaEventRecord` and `cudaStreamWaitEvent` between capturing streams |
# | `graph.update(builder)` | `cudaGraphExecUpdate(exec, graph, ...)` |
#
# ## What NVIDIA's tools would show
#
# Nsight Systems draws a graph launch as one bar on the host's row and, with `--cuda-graph-trace=node`, its kernels one by
# one on the GPU's. Without that option a graph is a single box, and the bubbles inside it cannot be seen.
#
# ## To take away
#
# * Where a kernel is shorter than its launch, the GPU waits for the CPU, once a kernel. A graph pays once for all of them.
# * Capture, instantiate once, launch often: the costs of setting up are moved into the instantiation
#   ([guide](https://docs.nvidia.com/cuda/cuda-programming-guide/04-special-topics/cuda-graphs.html)), which takes more than a microsecond
#   a node ([blog](https://developer.nvidia.com/blog/constant-time-launch-for-straight-line-graphs-and-other-performance-enhancements/)).
#   For a single launch a graph is not worth it.
# * Arguments are frozen, contents are not.
# * Measure first: without bubbles in the timeline, a graph has nothing to remove.
#
# ## Exercises
#
# In `exercises/08-graphs`:
#
# 1. **`graph`**: a film of many small steps. Capture a frame's work once, and launch it as often as there are frames.
# 2. **`branches`**: two diffusions and a reaction. Fork, join, and look whether the boxes lie one above the other.
