# %% [markdown]
# # 03 · Overlap
#
# **You will** make a block fetch its next tile while it works on this one, see when that doubles its speed and when it
# gains nothing at all, and meet warps that have different jobs.
#
# **You need** lessons 01 and 02: latency, occupancy, shared memory and barriers.
#
# The units of an SM are independent: loads travel while the arithmetic units work. But a program can forbid it. "Load a tile,
# wait for everybody, compute, wait for everybody, load the next" is such a program: while the block waits, nothing of it
# computes, and while it computes, nothing of it is on the way. This lesson is about getting both at once, and about noticing
# when you have them already.

# %%
# %load_ext grader
import numpy as np
from numba import cuda, float32, int32

from grader.kit import barrier_arrive, barrier_sync, lab
from grader.kit.limits import draw_stalls, why

TILE = 64
sms = cuda.get_current_device().MULTIPROCESSOR_COUNT

# %% [markdown]
# ## A tile at a time
#
# For each number, how many of the 64 numbers of its group are smaller? (Those counts are the places that sorting each group would
# put them in.) Every number is used by 64 threads, so the group goes to shared memory. Each block does one group after the other.

# %%
@cuda.jit
def single(x, rank):
    tile = cuda.shared.array(TILE, float32)
    t = cuda.threadIdx.x
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        tile[t] = x[i]                                  # load, and wait for it
        cuda.syncthreads()
        me = tile[t]
        smaller = int32(0)
        for k in range(TILE):                           # compute
            smaller += tile[k] < me
        rank[i] = smaller
        cuda.syncthreads()                              # nobody overwrites what others still read


n = 1 << 19
host = np.random.default_rng(3).random(n, np.float32)
groups = host.reshape(-1, TILE)
expected = (groups[:, :, None] > groups[:, None, :]).sum(-1, dtype=np.int32).ravel()
x, rank = cuda.to_device(host), cuda.device_array(n, np.int32)

alone = {"single": why(lambda: single[sms, TILE](x, rank))}
assert np.array_equal(rank.copy_to_host(), expected)
print(alone["single"])

# %% [markdown]
# One block of two warps on every SM. The time of a tile is the time of its load **plus** that of its comparisons.
#
# **Predict.** If the next tile's load could travel during the comparisons, what would a tile take? How much faster can this
# become at the very best?
#
# ## Fetch ahead
#
# A thread does not stop at a load, but at the first instruction that needs what was loaded (lesson 01). So ask for the next element
# *before* the comparisons, keep it in a register, and put it into shared memory *after* them.

# %%
@cuda.jit
def fetch_ahead(x, rank):
    tile = cuda.shared.array(TILE, float32)
    t = cuda.threadIdx.x
    step = cuda.gridsize(1)
    coming = x[cuda.grid(1)]                            # the first tile
    for i in range(cuda.grid(1), x.size, step):
        me = coming
        tile[t] = me
        cuda.syncthreads()
        if i + step < x.size:
            coming = x[i + step]                        # on its way from here ...
        smaller = int32(0)
        for k in range(TILE):
            smaller += tile[k] < me
        rank[i] = smaller
        cuda.syncthreads()                              # ... and needed only when the loop comes round


alone["fetch_ahead"] = why(lambda: fetch_ahead[sms, TILE](x, rank))
assert np.array_equal(rank.copy_to_host(), expected)
print(alone["fetch_ahead"])

# %% [markdown]
# At best a tile takes the *longer* of its two halves and no more: $\max(a, b)$ in place of $a + b$. That is a factor of two where
# both are equal, and next to nothing where one is much longer than the other. **Overlap pays at most twofold**, and only where
# two things of about the same length stood one behind the other.
#
# ## Double buffering
#
# The second barrier of the loop is there because there is one buffer: nobody may overwrite it while others read. With **two
# buffers in turn**, the next tile goes into the other one, and a barrier a tile is enough.

# %%
@cuda.jit
def double(x, rank):
    even = cuda.shared.array(TILE, float32)
    odd = cuda.shared.array(TILE, float32)
    t = cuda.threadIdx.x
    step = cuda.gridsize(1)
    i = cuda.grid(1)
    coming = x[i]
    while i < x.size:
        me = coming
        even[t] = me
        cuda.syncthreads()
        if i + step < x.size:
            coming = x[i + step]
        smaller = int32(0)
        for k in range(TILE):
            smaller += even[k] < me
        rank[i] = smaller
        i += step
        if i < x.size:                                  # the same with the other buffer
            me = coming
            odd[t] = me
            cuda.syncthreads()
            if i + step < x.size:
                coming = x[i + step]
            smaller = int32(0)
            for k in range(TILE):
                smaller += odd[k] < me
            rank[i] = smaller
            i += step


alone["double"] = why(lambda: double[sms, TILE](x, rank))
assert np.array_equal(rank.copy_to_host(), expected)
draw_stalls(alone, "One block on every SM")
for name, w in alone.items():
    print(f"{name:12} {w}")

# %% [markdown]
# Why is one barrier enough? A thread writes `even` again only after the barrier behind its writing of `odd`, and everybody who
# stands at *that* barrier has finished with `even`. Leave a barrier out without such an argument, and racecheck will have one.
#
# ## Few warps and many
#
# So far an SM had two warps. What if it has more blocks, as it usually does?
#
# **Predict.** Draw the three curves before you run the cell: time over blocks on every SM.

# %%
blocks = [1, 2, 4, 8, 16]
times = {
    kernel.__name__: [lab.microseconds(lambda: kernel[sms * b, TILE](x, rank)) for b in blocks]
    for kernel in (single, fetch_ahead, double)
}
lab.curves(blocks, times, "blocks on every SM", f"microseconds, {lab.how()}",
           "The more warps, the less there is to gain")
for k, b in enumerate(blocks):
    gain = times["single"][k] / times["fetch_ahead"][k]
    print(f"{b:2} blocks, {2 * b:2} warps: fetching ahead is {gain:.2f} times as fast")

# %% [markdown]
# With many blocks, one block computes while another waits. The hardware overlaps them without being told, and that is all that
# fetching ahead could have done. The warps *are* the second buffer.
#
# ### Where the time goes with many warps

# %%
crowd = {
    kernel.__name__: why(lambda: kernel[sms * 16, TILE](x, rank))
    for kernel in (single, fetch_ahead, double)
}
draw_stalls(crowd, "Sixteen blocks on every SM")
for name, w in crowd.items():
    busiest = max(w.use, key=w.use.get, default="")
    busy = f", {busiest} is busy for {w.use[busiest]:.0%}" if busiest else ""
    print(f"{name:12} {w.microseconds:5.1f} us, {lab.how()}" + busy)

# %% [markdown]
# The warps of `single` still wait for memory for part of their time: long scoreboard is there in the picture. It does not
# matter, since others compute meanwhile. **A stall is a problem only when nobody else has work.** All three are held up by the same
# unit. What `double` has left of its lead are instructions and barriers that it saves, and a modelled difference that small is
# not to be relied on.
#
# Double buffering is not free either: it takes registers or shared memory, and so may cost a resident block; its code is
# longer; an index that selects the buffer (`tiles[now, k]`) is computed for every access unless the compiler can see through
# it. Measure before and after.
#
# So when does it pay?
#
# * the block needs so much shared memory or so many registers that only one or two fit on an SM. That is the normal case of fast
#   matrix products;
# * there is little work: fewer blocks than would fill the GPU;
# * and computing and loading take about the same time.
#
# ## Different jobs for different warps
#
# Another way to have both at once: some warps only load, the others only compute. This is **warp specialisation**. Now
# `syncthreads` is too blunt a tool, since the two sides do not go through the same code. A block has 16 **named barriers**, and
# there are two ways to take part in one: *wait* there (`barrier_sync`), or only say that you have come by (`barrier_arrive`).

# %%
FULL, TAKEN = 1, 2                                      # two barriers; 0 is that of syncthreads


@cuda.jit
def specialised(x, rank):                               # 64 threads that load, and 64 that compute
    tile = cuda.shared.array(TILE, float32)
    t = cuda.threadIdx.x % TILE
    step = cuda.gridDim.x * TILE
    i = cuda.blockIdx.x * TILE + t
    if cuda.threadIdx.x < TILE:
        while i < x.size:
            coming = x[i]
            if i >= step:                               # not before the first tile
                barrier_sync(TAKEN, 2 * TILE)           # wait until the other half is done with the tile
            tile[t] = coming
            barrier_arrive(FULL, 2 * TILE)              # say that it is there, and go on to the next load
            i += step
    else:
        while i < x.size:
            barrier_sync(FULL, 2 * TILE)
            me = tile[t]
            smaller = int32(0)
            for k in range(TILE):
                smaller += tile[k] < me
            if i + step < x.size:
                barrier_arrive(TAKEN, 2 * TILE)
            rank[i] = smaller
            i += step


few = x[: 16 * sms * TILE]                              # sixteen tiles a block
teams = {}
for kernel, threads in ((single, TILE), (fetch_ahead, TILE), (specialised, 2 * TILE)):
    teams[kernel.__name__] = why(lambda: kernel[sms, threads](few, rank))
    assert np.array_equal(rank[: few.size].copy_to_host(), expected[: few.size])
    print(f"{kernel.__name__:12} {teams[kernel.__name__]}")

# %% [markdown]
# It overlaps as well as fetching ahead does, and no better, with twice the threads. Specialisation comes into its own where one
# thread can start the copy of a whole tile, without registers in between, and several tiles are under way. That takes
# asynchronous copies (lesson 04) and barriers that count bytes (lesson 05).
#
# ## The same in CUDA C++
#
# | here | CUDA C++ |
# |---|---|
# | `coming = x[i + step]` before the loop over the tile | the same; the compiler may move the load, so look where it went |
# | two shared arrays in turn | `__shared__ float tile[2][64]` and an index; unroll by two so that it becomes a constant |
# | `barrier_sync(1, 128)`, `barrier_arrive(1, 128)` | `asm volatile("bar.sync 1, 128;")`, `bar.arrive`; CUTLASS calls them `NamedBarrier` |
# | fetching ahead without registers | `cuda::memcpy_async`, `cuda::pipeline` (lessons 04 and 05) |
#
# ## What Nsight Compute would show
#
# * *Warp State Statistics*: of `single` with one block, mostly long scoreboard; of the others, less of it.
# * *Source*: the long scoreboard sits at the store to shared memory, which is the first to need the element. When it has
#   moved behind the comparisons, you fetch ahead; when the compiler has moved it back, you see that too.
# * *Scheduler Statistics*: eligible warps a cycle. If there is at least one nearly always, fetching ahead has nothing to give.
#
# ## To take away
#
# * Overlap turns a sum into a maximum: at most twofold.
# * Fetch ahead into registers or a second buffer; need the data late.
# * Many resident warps do the same by themselves. Look at what is resident first.
# * Two buffers save a barrier, one argument makes it right, and racecheck checks the argument.
#
# ## Exercises
#
# In `exercises/03-overlap`:
#
# 1. **`stencil`**: a sum over 33 neighbours, tile by tile, with few warps. Fetch ahead.
# 2. **`buffers`**: distances to the landmarks of a group. Two buffers in turn, and one barrier a group.
