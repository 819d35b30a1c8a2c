# %% [markdown]
# # 04 · Asynchronous copies
#
# **You will** let the hardware carry data from global to shared memory while the threads do something else, wait for
# exactly the copies that you need, and recognise the three mistakes that everybody makes.
#
# **You need** lesson 02 (shared memory) and 03 (overlap).
#
# A tiled kernel loads a tile, waits, computes, and loads the next one. While it waits it computes nothing, and while it
# computes, nothing is on its way. Since compute capability 8.0 a thread can *start* a copy to shared memory and go on.
# CUDA C++ calls it `memcpy_async`; the instruction is `cp.async`.

# %%
# %load_ext grader
import numpy as np
from numba import cuda, float32

from grader.kit import cp_async, cp_async_commit, cp_async_wait, cp_async_wait_all, cp_async_zfill
from grader.kit import lab

# %% [markdown]
# ## What a plain load does
#
# `tile[t] = x[i]` looks like one step and is two: from global memory into a register, and from there to shared memory.
# Between the two the thread holds the register, and must wait. Here are both versions, and the memory instructions that the
# compiler makes of each.

# %%
@cuda.jit
def by_register(x, y):
    tile = cuda.shared.array((8, 128), float32)
    t = cuda.threadIdx.x
    for k in range(8):
        tile[k, t] = x[128 * k + t]
    cuda.syncthreads()
    total = float32(0)
    for k in range(8):
        total += tile[k, 127 - t]
    y[t] = total


@cuda.jit
def by_copy(x, y):
    tile = cuda.shared.array((8, 128), float32)
    t = cuda.threadIdx.x
    for k in range(8):
        cp_async(tile, (k, t), x, 128 * k + t, 4)      # 4 bytes: to tile[k, t], from x[128 * k + t]
    cp_async_wait_all()                                # my own copies have arrived
    cuda.syncthreads()                                 # everybody's have
    total = float32(0)
    for k in range(8):
        total += tile[k, 127 - t]
    y[t] = total


x = cuda.to_device(np.arange(1024, dtype=np.float32))
y = cuda.to_device(np.zeros(128, np.float32))
right = np.arange(1024, dtype=np.float32).reshape(8, 128).sum(axis=0)[::-1]

for kernel in (by_register, by_copy):
    kernel[1, 128](x, y)
    assert np.array_equal(y.copy_to_host(), right)
    [code] = kernel.inspect_asm().values()
    [registers] = kernel.get_regs_per_thread().values()
    words = [line.split()[0] for line in code.splitlines() if line.strip()]
    moves = ("ld.global.f32", "st.shared.f32", "cp.async.ca.shared.global")
    used = [w for w in moves if w in words]
    print(f"{kernel.__name__:11}: {', '.join(used)}; {registers} registers a thread")

# %% [markdown]
# The asynchronous version has no `ld.global` and no `st.shared`: the data never passes through a register. So a thread can have as many
# copies under way as it likes without paying for it in registers, and fewer registers can mean more warps per SM.
#
# ## Groups
#
# How does a thread say which copies it waits for? It closes a **group** with `cp_async_commit()`: all copies that it started
# since the last commit. `cp_async_wait(n)` waits until **at most the `n` youngest groups are still under way**.
#
# **Predict.** A thread commits groups A, B, C, in this order. After `cp_async_wait(1)`, which of them may it use?

# %%
@cuda.jit
def three_groups(x, y):
    tile = cuda.shared.array((3, 32), float32)
    t = cuda.threadIdx.x
    for k in range(3):
        cp_async(tile, (k, t), x, 32 * k + t, 4)
        cp_async_commit()
    cp_async_wait(1)                     # C may still be under way
    y[t] = tile[0, t] + tile[1, t]       # A and B are here
    cp_async_wait(0)
    y[t] += tile[2, t]


three_groups[1, 32](x, y)
expected = np.arange(96, dtype=np.float32).reshape(3, 32).sum(axis=0)
print("right:", np.array_equal(y.copy_to_host()[:32], expected))

# %% [markdown]
# No barrier was needed, because each thread read only what it had copied itself. That is what a wait is good for: **my own copies,
# visible to me.** Nothing more.
#
# ## Three ways to get it wrong
#
# **First: no wait.** There is a barrier, but a barrier knows nothing about copies.

# %%
@cuda.jit
def no_wait(x, y):
    tile = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    cp_async(tile, t, x, t, 4)
    cp_async_commit()
    cuda.syncthreads()
    y[t] = tile[127 - t]


no_wait[1, 128](x, y)
print(y.copy_to_host()[:4])

# %% [markdown]
# On a GPU this may well give the right values: often the copy is quick enough. The virtual GPU delivers at the wait and not
# before, so a missing wait fails every time.
#
# **Second: a wait, but no barrier.** Each thread waits for its own copy, and reads another one's.

# %%
@cuda.jit
def no_barrier(x, y):
    tile = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    cp_async(tile, t, x, t, 4)
    cp_async_commit()
    cp_async_wait(0)
    y[t] = tile[127 - t]


no_barrier[1, 128](x, y)
cuda.synchronize()

# %% [markdown]
# So the order is always the same: **wait, then barrier, then read.**
#
# **Third: the wrong count.** This is the double-buffered loop of every textbook: while tile `k` is used, tile `k + 1` is under
# way. `cp_async_wait(1)` leaves the youngest group alone and so means "tile `k` is here".
#
# **Predict.** The loop below is right for every tile but one. Which?

# %%
TILES = 4


@cuda.jit
def wrong_count(x, y):
    tile = cuda.shared.array((2, 128), float32)
    t = cuda.threadIdx.x
    total = float32(0)
    cp_async(tile, (0, t), x, t, 4)
    cp_async_commit()
    for k in range(TILES):
        if k + 1 < TILES:
            cp_async(tile, ((k + 1) % 2, t), x, 128 * (k + 1) + t, 4)
            cp_async_commit()
        cp_async_wait(1)
        cuda.syncthreads()
        total += tile[k % 2, 127 - t]
        cuda.syncthreads()
    y[t] = total


wrong_count[1, 128](x, y)
right4 = np.arange(128 * TILES, dtype=np.float32).reshape(TILES, 128).sum(axis=0)[::-1]
print("wrong values:", np.count_nonzero(y.copy_to_host() != right4))

# %% [markdown]
# In the last step nothing is copied, so nothing is committed, and the youngest group *is* the last tile. The cure costs nothing:
# commit in every step. **An empty group counts too**, and then the arithmetic is the same in every step.

# %%
@cuda.jit
def double_buffered(x, y):
    tile = cuda.shared.array((2, 128), float32)
    t = cuda.threadIdx.x
    total = float32(0)
    cp_async(tile, (0, t), x, t, 4)
    cp_async_commit()
    for k in range(TILES):
        if k + 1 < TILES:
            cp_async(tile, ((k + 1) % 2, t), x, 128 * (k + 1) + t, 4)
        cp_async_commit()                 # perhaps an empty group
        cp_async_wait(1)                  # all but the youngest: tile k is here
        cuda.syncthreads()
        total += tile[k % 2, 127 - t]
        cuda.syncthreads()                # everybody is done with tile k before it is overwritten
    y[t] = total


double_buffered[1, 128](x, y)
print("wrong values:", np.count_nonzero(y.copy_to_host() != right4))

# %% [markdown]
# ## The tail
#
# The last tile of an array is rarely full. `cp_async_zfill(tile, i, x, j, 4, n)` reads only the first `n` of its 4 bytes and fills the
# rest with zeros: with `n = 0` it reads nothing at all. (The address must be one that exists all the same.) No branch around the
# copy, and no old data in the tile.

# %%
@cuda.jit
def padded(x, y):
    tile = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    inside = t < x.size
    cp_async_zfill(tile, t, x, t if inside else 0, 4, 4 if inside else 0)
    cp_async_wait_all()
    y[t] = tile[t]


padded[1, 128](x[:100], y)
print(y.copy_to_host()[96:104])

# %% [markdown]
# Copies of 8 and 16 bytes save instructions, and those of 16 can pass by the L1 cache. Both addresses must be multiples of the
# size: ask for it with `cuda.shared.array(shape, float32, alignment=16)`.
#
# ## Is it faster?
#
# A loop over tiles, with some arithmetic on each: once with plain loads, and once with asynchronous copies, double-buffered. First
# with few blocks, so that an SM has little else to do, then with many.
#
# **Predict.** Where does double buffering gain most: with few blocks or with many?

# %%
@cuda.jit
def plain(x, y, tiles):
    tile = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    first = cuda.blockIdx.x * tiles * 128
    total = float32(0)
    for k in range(tiles):
        tile[t] = x[first + 128 * k + t]
        cuda.syncthreads()
        for j in range(8):
            total += tile[t ^ j]
        cuda.syncthreads()
    y[cuda.grid(1)] = total


@cuda.jit
def ahead(x, y, tiles):
    tile = cuda.shared.array((2, 128), float32)
    t = cuda.threadIdx.x
    first = cuda.blockIdx.x * tiles * 128
    total = float32(0)
    cp_async(tile, (0, t), x, first + t, 4)
    cp_async_commit()
    for k in range(tiles):
        if k + 1 < tiles:
            cp_async(tile, ((k + 1) & 1, t), x, first + 128 * (k + 1) + t, 4)
        cp_async_commit()
        cp_async_wait(1)
        cuda.syncthreads()
        for j in range(8):
            total += tile[k & 1, t ^ j]
        cuda.syncthreads()
    y[cuda.grid(1)] = total


n = 1 << 20
big = cuda.to_device(np.ones(n, np.float32))
gain = {}
for blocks in (64, 256, 1024, 4096):
    tiles = n // 128 // blocks
    sums = cuda.device_array(128 * blocks, np.float32)
    times = [lab.microseconds(lambda: k[blocks, 128](big, sums, tiles)) for k in (plain, ahead)]
    assert sums.copy_to_host().sum() == 8 * n
    gain[f"{blocks} blocks of {tiles} tiles"] = times[0] / times[1]
    print(f"{blocks:4} blocks, {tiles:3} tiles each: plain {times[0]:6.1f} us, "
          f"ahead {times[1]:6.1f} us, {lab.how()}")

lab.bars(gain, f"time of plain / time of ahead ({lab.how()})",
         "Where copying ahead pays, and where it does not", form="{:.2f} x", best=1.0)

# %% [markdown]
# Right of the dashed line copying ahead wins, left of it it loses. With few blocks there is nothing else to do while a load is under
# way, and the wait is exposed. With many, the SM simply runs another warp meanwhile: it hides the latency without any help,
# and the extra index arithmetic and the second buffer are all that is left. This is the honest summary of `cp.async`:
# **it helps where latency is exposed**: at low occupancy, with large tiles, in kernels that need their registers for
# something else. Everywhere else, take the time before and after, and believe the figures.
#
# ## The same in CUDA C++
#
# | here | PTX | CUDA C++ |
# |---|---|---|
# | `cp_async(tile, i, x, j, 16)` | `cp.async.cg.shared.global` | `__pipeline_memcpy_async(&tile[i], &x[j], 16)` |
# | `cp_async_zfill(..., 16, n)` | the same, with a source size | its fourth argument: bytes to fill, `16 - n` |
# | `cp_async_commit()` | `cp.async.commit_group` | `__pipeline_commit()` |
# | `cp_async_wait(1)` | `cp.async.wait_group 1` | `__pipeline_wait_prior(1)` |
# | | | `cuda::memcpy_async(block, ...)`, with a barrier or a pipeline |
#
# ## What Nsight Compute would show
#
# In the *Source* page a plain load is `LDG` followed by `STS`; an asynchronous copy is a single `LDGSTS`. The stall that a plain
# load causes is *Long Scoreboard* at the `STS`; a copy that is waited for too early stalls at its wait,
# `DEPBAR`, instead. (`LDGDEPBAR` before it is the commit.) If that stall is as long as before, nothing was gained: the wait only has another name.
#
# ## Exercises
#
# In `exercises/04-async-copy`:
#
# 1. **`tail`**: a window over a tile, with the zeros beyond the end written by the copy itself.
# 2. **`matmul`**: the tiled matrix product with the next tiles under way while the last ones are used.
