# %% [markdown]
# # 02 · Memory
#
# **You will** predict how many bytes a warp's access really moves, count them, and rewrite a kernel so that it moves no
# more than it must. You will use shared memory, and meet its one trap.
#
# **You need** lessons 00 and 01: warps, and why waiting for memory is what most kernels do.
#
# An A100 can do about forty float32 operations in the time in which one float32 arrives from its memory (19.5 TFLOP/s
# against 2 TB/s, by NVIDIA's data sheet). So in most kernels the arithmetic is free, and what counts is how memory is
# asked. The same work on the same array can differ several times in speed, only because the threads stand in a
# different order.

# %%
# %load_ext grader
import numpy as np
from numba import cuda, float32

from grader.kit import lab
from grader.kit.limits import why

# %% [markdown]
# ## Memory comes in sectors
#
# Threads do not fetch numbers one by one. The 32 threads of a warp execute a load together, and that is **one request**.
# The hardware looks at the 32 addresses and fetches every **sector** of 32 bytes that they touch. Four sectors lie in a
# line of 128 bytes.
#
# If the 32 threads ask for 32 neighbouring float32, that is 128 bytes: 4 sectors, no byte too many. This is called
# **coalesced**.
#
# **Predict.** Now each thread takes every second element: thread 0 takes `x[0]`, thread 1 `x[2]`, thread 2 `x[4]`. How many
# sectors does a request need? And with every eighth? Every 32nd?

# %%
@cuda.jit
def take_every(x, y, step):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = x[i * step]


n = 1 << 20
y = cuda.device_array(n, np.float32)
x = cuda.to_device(np.arange(32 * n, dtype=np.float32))

steps = [1, 2, 4, 8, 16, 32]
sectors, times = [], []
for step in steps:
    work = lambda: take_every[n // 256, 256](x, y, step)
    counts = lab.count(work)
    sectors.append(counts.sectors_per_load)
    times.append(lab.microseconds(work))
    used = 100 * 4 / counts.sectors_per_load
    print(f"step {step:2}: {counts.sectors_per_load:4.0f} sectors a request, "
          f"{used:5.1f} % of the loaded bytes are used, {times[-1]:5.1f} us {lab.how()}")

# %%
fig, axes = lab.figure(columns=2)
labels = "sectors per request", f"microseconds, {lab.how()}"
for ax, values, label in zip(axes, (sectors, times), labels):
    ax.plot(steps, values)
    ax.set_xscale("log", base=2)
    ax.set_xticks(steps, steps)
    ax.minorticks_off()
    ax.set_ylim(bottom=0)
    ax.set_xlabel("step between neighbouring threads")
    ax.set_title(label)

# %% [markdown]
# With step 8 every thread has a sector to itself: 8 times the bytes of step 1, seven eighths of them for nothing. Beyond
# that it cannot get worse *per request*, because there are only 32 threads. Every kernel in the table loads the same number
# of useful elements.
#
# The rule that follows is the most useful one in this course: **neighbouring threads (`threadIdx.x` and `+ 1`) should touch
# neighbouring addresses.** It says nothing about what *one* thread does from one moment to the next.
#
# ### What does not matter
#
# **Predict.** The threads of each warp take the right 32 elements, but in a scrambled order. Or all elements are shifted
# by one. Which of the two costs anything?

# %%
@cuda.jit
def scrambled(x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = x[i ^ 21]              # within each group of 32, some other order


@cuda.jit
def shifted(x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = x[i + 1]


for kernel in (scrambled, shifted):
    counts = lab.count(lambda: kernel[n // 256, 256](x, y))
    print(f"{kernel.__name__:9}: {counts.sectors_per_load:.1f} sectors a request")

# %% [markdown]
# The order within a warp is free: only the *set* of sectors counts. A shift costs one more sector, and since the neighbouring
# warp asks for the same sector, the cache mostly makes up for it. Do not pad arrays for this.
#
# ## Rows and columns
#
# A matrix lies in memory row by row. In `a[y, x]`, `x + 1` is the neighbour, and `y + 1` is a whole row away. So let
# `threadIdx.x` run along `x`. The transpose is the classic trap, because it cannot: it reads along rows and writes along
# columns, or the other way about.

# %%
@cuda.jit
def copy(a, out):                     # not a transpose: the best that reading and writing once can be
    x, y = cuda.grid(2)
    if y < a.shape[0] and x < a.shape[1]:
        out[y, x] = a[y, x]


@cuda.jit
def naive(a, out):
    x, y = cuda.grid(2)
    if y < a.shape[0] and x < a.shape[1]:
        out[x, y] = a[y, x]


size = 2048
host = np.arange(size * size, dtype=np.float32).reshape(size, size)
a, out = cuda.to_device(host), cuda.device_array((size, size), np.float32)
grid, block = (size // 32, size // 32), (32, 32)

ladder = {}
for kernel, expected in ((copy, host), (naive, host.T)):
    ladder[kernel.__name__] = lab.microseconds(lambda: kernel[grid, block](a, out))
    assert np.array_equal(out.copy_to_host(), expected)
    counts = lab.count(lambda: kernel[grid, block](a, out))
    print(f"{kernel.__name__:6}: {counts.sectors_per_load:2.0f} sectors a load, "
          f"{counts.sectors_per_store:2.0f} a store, {ladder[kernel.__name__]:6.1f} us {lab.how()}")

# %% [markdown]
# The naive transpose loads well and stores badly: each of its 32 threads writes into a row of its own.
#
# ## Shared memory
#
# Each block has some tens of kilobytes of **shared memory**, inside the SM. It is as fast as the L1 cache, and addresses may
# be scattered at no cost (with one exception, which comes below). So: load a tile along its rows, wait until all of it is
# there, and store it along the rows of the *output*, picking the elements out of the tile column by column.

# %%
@cuda.jit
def tiled(a, out):
    tile = cuda.shared.array((32, 32), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.grid(2)
    if y < a.shape[0] and x < a.shape[1]:
        tile[ty, tx] = a[y, x]
    cuda.syncthreads()
    x = cuda.blockIdx.y * 32 + tx     # the block's place in the output
    y = cuda.blockIdx.x * 32 + ty
    if y < out.shape[0] and x < out.shape[1]:
        out[y, x] = tile[tx, ty]


def show(kernel):
    ladder[kernel.__name__] = lab.microseconds(lambda: kernel[grid, block](a, out))
    assert np.array_equal(out.copy_to_host(), host.T)
    counts = lab.count(lambda: kernel[grid, block](a, out))
    print(f"{kernel.__name__:6}: {counts.sectors_per_load:2.0f} sectors a load, "
          f"{counts.sectors_per_store:2.0f} a store, {counts.ways:4.1f} ways in shared memory, "
          f"{ladder[kernel.__name__]:6.1f} us {lab.how()}")


show(tiled)

# %% [markdown]
# Loads and stores are both coalesced now. Whether that alone already pays is another matter: there is a new figure in the line,
# the "ways", and it is far from 1.
#
# ## Banks
#
# Shared memory is made of 32 **banks**, which work side by side. Word `k` (4 bytes) lies in bank `k % 32`. Each bank gives one
# word per pass. If two threads of a warp want different words of one bank, the access takes a second pass: a **2-way bank
# conflict**. (The *same* word is given to any number of threads at once.)
#
# **Predict.** Thread `t` reads `tile[t * step]`. How many passes for step 1, 2, 3, 4, 32, 33?

# %%
@cuda.jit
def banks(y, step):
    tile = cuda.shared.array(2048, float32)
    t = cuda.threadIdx.x
    for i in range(t, 2048, 32):
        tile[i] = i
    cuda.syncthreads()
    y[t] = tile[t * step]


y32 = cuda.device_array(32, np.float32)
passes = {}
for step in (1, 2, 3, 4, 8, 16, 32, 33):
    counts = lab.count(lambda: banks[1, 32](y32, step))
    passes[f"step {step}"] = counts.shared_wavefronts - 64      # 64 passes fill the tile
lab.bars(passes, "passes for one load of a warp", "Only the common factor with 32 counts")

# %% [markdown]
# Odd steps are free. A step of 32 sends all threads to one bank: that is what a *column* of a tile that is 32 wide does, and
# `tile[tx, ty]` above reads a column. The cure is one unused element at the end of each row. Then a column has step 33.

# %%
@cuda.jit
def padded(a, out):
    tile = cuda.shared.array((32, 33), float32)     # the only change
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.grid(2)
    if y < a.shape[0] and x < a.shape[1]:
        tile[ty, tx] = a[y, x]
    cuda.syncthreads()
    x = cuda.blockIdx.y * 32 + tx
    y = cuda.blockIdx.x * 32 + ty
    if y < out.shape[0] and x < out.shape[1]:
        out[y, x] = tile[tx, ty]


show(padded)
lab.bars(ladder, f"microseconds, {lab.how()}", f"Transpose of {size} x {size} float32",
         best=ladder["copy"])

# %% [markdown]
# The dashed line is the plain copy, which no transpose can beat by much: it moves the same bytes. When a kernel is near such a
# line, stop. The next improvement must come from moving fewer bytes, that is, from a different algorithm or from doing more
# work on each visit.
#
# `padded` is not quite there. What is it that it waits for now? Lesson 01 has the tool:

# %%
print(why(lambda: padded[grid, block](a, out)))

# %% [markdown]
# It is bound by the ALU, the unit for integer arithmetic. The memory accesses are as good as they can be; what is left over the
# copy is work inside the SM: a store to and a load from shared memory for every element, a barrier, and the arithmetic of twice
# as many indices.
#
# ## Wide loads
#
# A thread can load 16 bytes with one instruction. That is a quarter of the loads and stores for the same bytes, and a quarter of
# the index arithmetic too.
#
# **Predict.** Will a copy get four times as fast?

# %%
from grader.kit import load4, store4


@cuda.jit
def one_by_one(x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = x[i]


@cuda.jit
def four_at_once(x, y):
    i = 4 * cuda.grid(1)
    if i < y.size:
        store4(y, i, load4(x, i))


m = 1 << 21
x4, y4 = cuda.to_device(np.arange(m, dtype=np.float32)), cuda.device_array(m, np.float32)
copies = {}
for kernel, per_thread in ((one_by_one, 1), (four_at_once, 4)):
    work = lambda: kernel[m // per_thread // 256, 256](x4, y4)
    counts = lab.count(work)
    copies[kernel.__name__] = lab.microseconds(work)
    print(f"{kernel.__name__:12}: {counts.instructions / m * 32:5.2f} warp instructions for 32 elements, "
          f"{counts.bytes_moved / m:.0f} bytes moved an element")
lab.bars(copies, f"microseconds, {lab.how()}", f"A copy of {m:,} float32")

# %% [markdown]
# Far fewer instructions, and the same bytes. Where the bytes are the bottleneck, that gains little. Wide loads help
# where the *instructions* are, or where a thread should have more bytes under way at a time (lesson 01).
#
# ### When shared memory does not help
#
# Shared memory pays where an element is used by more than one thread, or in another order. A copy by way of shared memory does
# neither:

# %%
@cuda.jit
def copy_by_tile(a, out):
    tile = cuda.shared.array((32, 33), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.grid(2)
    if y < a.shape[0] and x < a.shape[1]:
        tile[ty, tx] = a[y, x]
    cuda.syncthreads()
    if y < a.shape[0] and x < a.shape[1]:
        out[y, x] = tile[ty, tx]


detour = {k.__name__: lab.microseconds(lambda: k[grid, block](a, out)) for k in (copy, copy_by_tile)}
lab.bars(detour, f"microseconds, {lab.how()}", "The detour wins nothing")

# %% [markdown]
# Neither does it help to tile what the cache already holds. On today's cards a naive matrix product is saved by its L1 and L2
# caches to a good part. Count first, then tile.
#
# ## The same in CUDA C++
#
# | here | CUDA C++ |
# |---|---|
# | `cuda.shared.array((32, 33), float32)` | `__shared__ float tile[32][33]` |
# | `cuda.syncthreads()` | `__syncthreads()` |
# | `load4(x, i)` | `reinterpret_cast<const float4*>(x)[i / 4]` |
# | `x, y = cuda.grid(2)` | `blockIdx.x * blockDim.x + threadIdx.x`, the same with `y` |
#
# ## What Nsight Compute would show
#
# `ncu --set full python script.py`, page *Memory Workload Analysis*:
#
# * *L1/TEX Cache*, column *Sectors/Req*: the sectors per request of this lesson, loads and stores apart. 4 is right for
#   float32; the rule *Uncoalesced Global Accesses* names the source line and the excessive sectors.
# * *Shared Memory*, columns *Wavefronts* and *Bank Conflicts*: the passes. Wavefronts divided by requests are the "ways".
#
# ## Exercises
#
# In `exercises/02-memory`:
#
# 1. **`transpose`**: blocks of 32 x 8 threads for tiles of 32 x 32, any shape, no conflicts.
# 2. **`matmul`**: a matrix product with tiles in shared memory, where each element is used sixteen times.
