# %% [markdown]
# # 05 · Pipelines
#
# **You will** keep several tiles under way at once, find out how many are enough, and split a block into warps that only fetch and
# warps that only compute.
#
# **You need** lesson 04: groups, waits, and why a barrier follows a wait.
#
# With two buffers one tile is under way while one is in use. If the copy takes longer than the computation, that is not enough:
# the threads still wait. A pipeline of more **stages** has more tiles under way. It is Little's law once more: what must be
# under way is the rate times the latency.

# %%
# %load_ext grader
import numpy as np
from numba import cuda, float32, uint64

from grader.kit import cp_async, cp_async_arrive, cp_async_commit, cp_async_wait
from grader.kit import lab, mbarrier_arrive, mbarrier_init, mbarrier_wait

# %% [markdown]
# ## A ring of buffers
#
# A producer and a consumer share a ring of `STAGES` buffers. In the words of `cuda::pipeline`, for each tile
#
# | | producer | consumer |
# |---|---|---|
# | 1 | **acquire** a free stage | **wait** for the oldest one that is full |
# | 2 | start the copy | compute |
# | 3 | **commit** the stage | **release** it |
#
# When all threads do both, the ring needs no words at all: a step starts tile `k + STAGES - 1`, commits, and waits until
# `STAGES - 1` groups are left.
#
# **Predict.** One stage means no overlap at all. What will two, three, four, five stages gain, with few blocks on the GPU?

# %%
TILE = 128


def with_stages(stages):
    left = stages - 1

    @cuda.jit
    def kernel(x, y, tiles):
        ring = cuda.shared.array((stages, TILE), float32)
        t = cuda.threadIdx.x
        first = cuda.blockIdx.x * tiles * TILE
        for k in range(left):                         # fill the pipeline
            if k < tiles:
                cp_async(ring, (k, t), x, first + TILE * k + t, 4)
            cp_async_commit()
        total = float32(0)
        for k in range(tiles):
            ahead = k + left
            if ahead < tiles:                         # acquire, copy
                cp_async(ring, (ahead % stages, t), x, first + TILE * ahead + t, 4)
            cp_async_commit()                         # commit
            cp_async_wait(left)                       # wait: tile k is here
            cuda.syncthreads()
            for j in range(8):                        # compute
                total += ring[k % stages, t ^ j]
            cuda.syncthreads()                        # release
        y[cuda.grid(1)] = total

    return kernel


n = 1 << 19
x = cuda.to_device(np.ones(n, np.float32))
stages = [1, 2, 3, 4, 5]
curves = {}
for blocks in (64, 1024):
    tiles = n // TILE // blocks
    y = cuda.to_device(np.zeros(TILE * blocks, np.float32))
    curves[f"{blocks} blocks"] = []
    for s in stages:
        kernel = with_stages(s)
        us = lab.microseconds(lambda: kernel[blocks, TILE](x, y, tiles))
        curves[f"{blocks} blocks"].append(us)
        assert y.copy_to_host().sum() == 8 * n
    took = ", ".join(f"{us:.1f}" for us in curves[f"{blocks} blocks"])
    print(f"{blocks:4} blocks: {took} us, {lab.how()}")

# %%
fig, ax = lab.figure()
for name, times in curves.items():
    ax.plot(stages, [times[0] / us for us in times], label=name)
ax.axhline(1, color="0.5", linestyle="--", linewidth=1)
ax.set_xticks(stages)
ax.set_ylim(bottom=0)
ax.set_xlabel("stages")
ax.set_ylabel("times as fast as one stage")
ax.set_title(f"The first stages count, and only where latency shows ({lab.how()})")
_ = ax.legend()

# %% [markdown]
# With few blocks the second stage brings most of the gain, and after a few more there is nothing left to hide. With many blocks per
# SM the other blocks hide the latency already: then stages only cost instructions and shared memory. Where tiles are large, shared
# memory limits how many blocks fit, and more stages mean *fewer* resident warps. Try it, do not assume it.
#
# ## Warps of two kinds
#
# So far every thread fetches and computes in turn, and two barriers per tile hold all of them together. **Warp specialisation** splits
# the block: one warp does nothing but fetch, the others nothing but compute. They meet at **mbarriers**.
#
# An mbarrier is a 64-bit word in shared memory that counts arrivals. When as many have come as it was initialised for, its **phase**
# ends and the next begins; phases have the parities 0, 1, 0, 1, ... Waiting for a parity ends when a phase of that parity is over,
# and cannot tell phase 0 from phase 2: nobody may fall a whole round behind.
#
# Each stage has two such barriers: `full`, at which the copies arrive, and `empty`, at which the consumers do.
#
# **Predict.** The producer fills stage 0 for the first time. Must it wait for `empty[0]`? And the second time, for which parity?

# %%
STAGES = 3


@cuda.jit
def specialised(x, y, tiles):
    ring = cuda.shared.array((STAGES, TILE), float32, alignment=16)
    full = cuda.shared.array(STAGES, uint64)
    empty = cuda.shared.array(STAGES, uint64)
    t = cuda.threadIdx.x
    if t < STAGES:
        mbarrier_init(full, t, 32)                    # the 32 lanes of the producer
        mbarrier_init(empty, t, TILE)                 # the 128 consumers
    cuda.syncthreads()
    first = cuda.blockIdx.x * tiles * TILE
    if t < 32:                                        # the producer: 16 bytes a lane
        for k in range(tiles):
            s = k % STAGES
            if k >= STAGES:
                mbarrier_wait(empty, s, (k // STAGES - 1) & 1)           # acquire
            cp_async(ring, (s, 4 * t), x, first + TILE * k + 4 * t, 16)
            cp_async_arrive(full, s)                                     # commit
    else:                                             # the consumers
        c = t - 32
        total = float32(0)
        for k in range(tiles):
            s = k % STAGES
            mbarrier_wait(full, s, (k // STAGES) & 1)                    # wait
            for j in range(8):
                total += ring[s, c ^ j]
            mbarrier_arrive(empty, s)                                    # release
        y[cuda.blockIdx.x * TILE + c] = total


blocks = 64
tiles = n // TILE // blocks
y = cuda.to_device(np.zeros(TILE * blocks, np.float32))
us = lab.microseconds(lambda: specialised[blocks, 32 + TILE](x, y, tiles))
print("right:", y.copy_to_host().sum() == 8 * n)
lab.bars({"1 stage": curves["64 blocks"][0], "3 stages, all alike": curves["64 blocks"][2],
          "3 stages, specialised": us}, f"microseconds, {lab.how()}", "64 blocks")

# %% [markdown]
# The first time round every stage is empty, and nobody has to say so. From then on the producer waits for the round before: parity
# `(k // STAGES - 1) & 1`.
#
# Is it faster? Look at the bars, not at the idea. A kernel as simple as this has little to gain. Specialised warps pay where fetching
# itself takes many instructions, where producer and consumers need very different numbers of registers, and where one thread
# can start the copy of a whole tile.
#
# ### Bulk copies
#
# From compute capability 9.0 on that is so: `bulk_copy` moves a whole tile, started by a single thread. The thread announces the bytes
# at `full` with `mbarrier_arrive_expect_tx`, and the hardware counts them down as they come:
#
# ```python
# from grader.kit import bulk_copy, mbarrier_arrive_expect_tx
#
# mbarrier_arrive_expect_tx(full, s, 4 * TILE)
# bulk_copy(ring, (s, 0), x, first + TILE * k, 4 * TILE, full, s)
# ```
#
# `full` then counts one arrival, that of this thread. (Run this notebook with `GRADER_DEVICE=virtual:h100` to try it.)
#
# ## When the phases get out of step
#
# Forget that parities alternate, and the second round is mistaken for the first. Either somebody reads too early, or all wait for each
# other for ever. On a GPU the latter is a notebook that does not come back; the virtual one notices that nothing can happen any
# more and says who waits where. In exercise 2 you will probably see that report. Read it: it names the line.
#
# ## The same in CUDA C++
#
# | here | PTX | CUDA C++ |
# |---|---|---|
# | a ring with `cp_async_commit`, `cp_async_wait(STAGES - 1)` | `cp.async.wait_group` | `cuda::pipeline`, `__pipeline_wait_prior` |
# | acquire, commit, wait, release | | `producer_acquire()`, `producer_commit()`, `consumer_wait()`, `consumer_release()` |
# | `mbarrier_init`, `mbarrier_arrive`, `mbarrier_wait` | `mbarrier.init`, `.arrive`, `.test_wait.parity` | `cuda::barrier`, `wait_parity` |
# | `cp_async_arrive(full, s)` | `cp.async.mbarrier.arrive.noinc` | CUTLASS: `cpasync_barrier_arrive_noinc` |
# | `bulk_copy`, `mbarrier_arrive_expect_tx` | `cp.async.bulk`, `mbarrier.arrive.expect_tx` | `cuda::device::memcpy_async_tx`, `barrier_arrive_tx` |
#
# (`__pipeline_arrive_on` is without `.noinc`: it first adds one to the arrivals that are awaited, and then arrives. The barrier must
# then count somebody else besides.)
#
# ## What Nsight Compute would show
#
# In *Warp State Statistics* a starved consumer waits at *Long Scoreboard* or in the loop around the mbarrier; a producer that waits for
# room spins at `empty`. *Source Counters* says on which line. In *Occupancy*, look at what limits the blocks per SM: with each stage
# it is more likely to be shared memory.
#
# ## Exercises
#
# In `exercises/05-pipeline`:
#
# 1. **`pipeline`**: a ring of three tiles, two of them under way.
# 2. **`specialised`**: a warp that only fetches, and four that only compute.
