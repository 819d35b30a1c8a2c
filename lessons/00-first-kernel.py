# %% [markdown]
# # 00 · First kernel
#
# **You will** write and launch a kernel, say which thread does what, have a race and a stray access pointed out to you,
# and read a timeline.
#
# **You need** Python and NumPy. No GPU: without one, this notebook runs on a virtual GPU that executes the same kernels
# instruction by instruction, watches them, and models how long they would take.
#
# A CPU core is built to finish one thing soon. A GPU is built to finish a great many things per second, and lets each of
# them wait. Everything in this course follows from that: how to give the GPU enough to do, how not to make it wait for
# the wrong thing, and how to know that the answer is right when ten thousand threads worked on it at once.

# %%
# %load_ext grader
import numpy as np
from numba import cuda, float32
from numba.cuda.cudadrv.driver import CudaAPIError

from grader.kit import lab

# %% [markdown]
# The line above says which device this is, and whether times are *measured* on it or *modelled* for it. A modelled time
# is a calculation. It is good for comparing two kernels, and it is the same on every run; it is not a measurement.
#
# ## A kernel is the body of a loop
#
# `y[i] = a * x[i] + y[i]` for all `i`: a CPU would loop. A GPU starts one **thread** per element, and all of them run the
# same function, the **kernel**. Each finds out which element is its own.

# %%
@cuda.jit
def saxpy(a, x, y):
    i = cuda.grid(1)      # blockIdx.x * blockDim.x + threadIdx.x: this thread's number in the whole grid
    if i < x.size:        # the last block may reach beyond the end of the array
        y[i] = a * x[i] + y[i]


# %% [markdown]
# Threads are launched in **blocks**, and the blocks of a launch form the **grid**. You choose both numbers, in square
# brackets: `kernel[blocks, threads_per_block](arguments)`.
#
# **Predict.** 1000 elements, 256 threads a block. How many blocks do you need? How many threads will have nothing to do?
# Write both numbers down before you run the cell.

# %%
n = 1000
threads = 256
blocks = (n + threads - 1) // threads

x = np.arange(n, dtype=np.float32)
y = np.ones(n, dtype=np.float32)
d_x, d_y = cuda.to_device(x), cuda.to_device(y)      # copies in the GPU's own memory

saxpy[blocks, threads](np.float32(2), d_x, d_y)
result = d_y.copy_to_host()

print(f"{blocks} blocks, {blocks * threads} threads, {blocks * threads - n} of them idle")
print("right:", np.array_equal(result, 2 * x + y))

# %% [markdown]
# `(n + threads - 1) // threads` rounds up. The `if i < x.size` in the kernel is the price: the threads beyond the end must
# keep their hands off the array. Further down you will see what happens when they do not.
#
# `np.float32(2)` and not `2.0`: a Python float is 64 bits wide, and would make the whole expression run in float64.
#
# ## Who does what
#
# Let every thread write down who it is. The hardware runs a block's threads in groups of 32, the **warps**. The threads
# of a warp execute the same instruction together, as long as they take the same branch; a thread's place in its warp is
# its **lane**.

# %%
@cuda.jit
def who(block, warp, lane):
    i = cuda.grid(1)
    if i < block.size:
        block[i] = cuda.blockIdx.x
        warp[i] = cuda.threadIdx.x // 32
        lane[i] = cuda.laneid


d_block, d_warp, d_lane = (cuda.device_array(n, np.int32) for _ in range(3))
who[blocks, threads](d_block, d_warp, d_lane)
block, warp, lane = (a.copy_to_host() for a in (d_block, d_warp, d_lane))

for i in (0, 31, 32, 255, 256, 999):
    print(f"element {i:3}: block {block[i]}, warp {warp[i]} of its block, lane {lane[i]:2}")

# %%
fig, ax = lab.figure(height=3.0)
picture = np.full(1024, np.nan)
picture[:n] = 2 * block + warp % 2                     # a shade a block, two tones in turn for its warps
ax.pcolormesh(picture.reshape(-1, 32), cmap="cividis", edgecolor="white", linewidth=0.3)
ax.set_yticks([4, 12, 20, 28], [f"block {b}" for b in range(4)])
ax.invert_yaxis()
ax.set_xlabel("lane")
ax.set_title("1000 elements, one row a warp: a row is executed together")
ax.grid(False)

# %% [markdown]
# The last row is only a quarter full: 8 elements and 24 idle lanes. A warp always has 32 lanes, used or not. So a block size
# that is no multiple of 32 wastes lanes in *every* block, not just in the last.
#
# What you may rely on, and what not:
#
# * threads of one block can share memory and wait for each other;
# * blocks run in any order, on any part of the GPU, perhaps at the same time, perhaps not. Nothing orders them.
#
# ## Where the time goes
#
# Copy in, run, copy out: the three things that the first launch needed, now for a million elements.
#
# **Predict.** What share of the total time does the kernel take? A tenth, a half, nearly all of it?

# %%
n = 1 << 20
blocks = (n + threads - 1) // threads
x = np.ones(n, np.float32)
y = np.ones(n, np.float32)
saxpy[blocks, threads](np.float32(2), cuda.to_device(x), cuda.to_device(y))   # compiled before we look

with lab.timeline() as t:
    d_x, d_y = cuda.to_device(x), cuda.to_device(y)
    saxpy[blocks, threads](np.float32(2), d_x, d_y)
    result = d_y.copy_to_host()

t.draw("saxpy of 1,048,576 elements with its copies")

# %%
kernel = lab.microseconds(lambda: saxpy[blocks, threads](np.float32(2), d_x, d_y))
print(f"kernel: {kernel:.1f} us, {lab.how()}")
print(f"kernel, with two copies in and one out: {t.microseconds:.0f} us, {lab.how()}")
print(f"the kernel moves {3 * x.nbytes / kernel / 1e3:.0f} GB/s")

# %% [markdown]
# The kernel is the thin bar. It reads two arrays and writes one, all of them in the GPU's own memory, and that memory is
# one or two orders of magnitude faster than the bus over which the copies go. Two lessons for life:
#
# 1. **Know what you are timing.** "The GPU takes so long" can mean the kernel, or everything that you did to get there.
# 2. **Leave data on the GPU** between kernels. A single cheap kernel is hardly ever worth the trip.
#
# ### When a GPU does not help
#
# A launch costs a few microseconds, however little it does. Here is the same kernel, without copies, for smaller and
# smaller arrays.

# %%
sizes = [1 << k for k in range(8, 23, 2)]
times = []
for n in sizes:
    d_x, d_y = cuda.to_device(np.ones(n, np.float32)), cuda.to_device(np.ones(n, np.float32))
    times.append(lab.microseconds(lambda: saxpy[(n + 255) // 256, 256](np.float32(2), d_x, d_y)))

lab.curves(sizes, {"saxpy": times}, "elements", f"microseconds, {lab.how()}",
           "Below some size, a kernel takes as long as an empty one", log=True)

# %%
for n, us in zip(sizes, times):
    print(f"{n:8} elements: {us:6.1f} us, {1e3 * us / n:8.3f} ns an element")

# %% [markdown]
# On the left the line is flat: most of the GPU is empty, and what you wait for is the launch. Only where the line rises does
# the GPU have enough to do, and only there is the time per element a figure worth quoting.
#
# ## Right, and right by luck
#
# Threads of a block share a small, fast memory. Here each block turns its 256 elements round: every thread puts its own
# element down and picks up another thread's.

# %%
@cuda.jit
def turn_round(x, y):
    tile = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    tile[t] = x[i]
    y[i] = tile[255 - t]      # written by another thread: has it got there yet?


x = np.arange(512, dtype=np.float32)
y = cuda.device_array(512, np.float32)
turn_round[2, 256](cuda.to_device(x), y)
wrong = np.count_nonzero(y.copy_to_host() != x.reshape(2, 256)[:, ::-1].ravel())
print(wrong, "of 512 values are wrong, this time")

# %% [markdown]
# The box is the work of **sanitizers**, which watch every access. Here `racecheck` saw two threads at the same place, one of
# them writing, with nothing to put them in order. It names both lines, and where a barrier is missing.
#
# The number of wrong values means little: it depends on which warp was faster. A race can give the right answer a
# thousand times on your card, and the wrong one on another. So homework with a race fails, whatever the values.
#
# `cuda.syncthreads()` makes every thread of the block wait for all others:

# %%
@cuda.jit
def turn_round(x, y):
    tile = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    tile[t] = x[i]
    cuda.syncthreads()        # all 256 elements are there before anybody reads
    y[i] = tile[255 - t]


turn_round[2, 256](cuda.to_device(x), y)
print("right:", np.array_equal(y.copy_to_host(), x.reshape(2, 256)[:, ::-1].ravel()))

# %% [markdown]
# No box: nothing to complain about.
#
# ## Beyond the end
#
# **Predict.** The same saxpy without its `if`, for 1000 elements in 4 blocks of 256. What will happen?

# %%
@cuda.jit
def careless(a, x, y):
    i = cuda.grid(1)
    y[i] = a * x[i] + y[i]


d_x, d_y = cuda.to_device(np.ones(1000, np.float32)), cuda.to_device(np.ones(1000, np.float32))
try:
    careless[4, 256](np.float32(2), d_x, d_y)
    print("launched")
    cuda.synchronize()
    print("finished")
except CudaAPIError as error:
    print(error.msg)

# %% [markdown]
# Two things to notice. The launch itself went well: a launch only *asks* for work and returns at once. The trouble comes
# out at the next call that waits. And the error does not go away: after a stray access the **context** is lost, and
# every further call in this process fails.

# %%
try:
    print(d_y.copy_to_host()[:3])
except CudaAPIError as error:
    print(error.msg)

# %% [markdown]
# A real GPU is less strict. Its memory comes in larger pieces than an array, so a step of a few bytes beyond the end often
# lands in somebody else's data, raises nothing, and corrupts a result far away. (If you run this on a GPU, the cells
# above may well have printed "finished".) NVIDIA's `compute-sanitizer --tool memcheck` finds it there.
#
# To go on after such an error, restart the notebook's kernel.
#
# ## The same in CUDA C++
#
# | here | CUDA C++ |
# |---|---|
# | `@cuda.jit def f(...)` | `__global__ void f(...)` |
# | `f[blocks, threads](...)` | `f<<<blocks, threads>>>(...)` |
# | `cuda.grid(1)` | `blockIdx.x * blockDim.x + threadIdx.x` |
# | `cuda.gridsize(1)` | `gridDim.x * blockDim.x` |
# | `cuda.to_device(x)` | `cudaMalloc` and `cudaMemcpy(..., cudaMemcpyHostToDevice)` |
# | `cuda.shared.array(256, float32)` | `__shared__ float tile[256]` |
# | `cuda.syncthreads()` | `__syncthreads()` |
# | `cuda.synchronize()` | `cudaDeviceSynchronize()` |
#
# ## What NVIDIA's tools would show
#
# Nsight Systems (`nsys profile python script.py`) draws the timeline above, with a row for the CUDA calls of the host over it: you would see
# the launch return long before the kernel ends. `compute-sanitizer python script.py` is the box of this notebook;
# there you choose one tool at a time, with `--tool racecheck` for instance. `ncu` looks inside one kernel, which is the
# subject of the next lesson.
#
# ## How homework is graded
#
# `check("00_grid_stride", my_kernel)` gives the verdict that the grader would give, as a table of rules. First it must be
# right: new inputs every time, sizes that you did not see, every element compared, the sanitizers silent. Only what is right
# is timed, against a plain kernel and a good one.
#
# | code | it means |
# |---|---|
# | AC | accepted |
# | SLOW | right, but under the speed that was asked |
# | WA | a value is wrong; the table says which, and what kind of mistake that looks like |
# | RTE | it failed when run, or a sanitizer found a hazard |
# | TLE | it never ends |
# | CE | it does not compile |
# | IE | the grader failed, which costs you nothing |
#
# ## Exercises
#
# In `exercises/00-first-kernel`:
#
# 1. **`grid_stride`**: a map over an array that is longer than the grid.
# 2. **`mend`**: a kernel with two mistakes. One of them gives the right values most of the time.
