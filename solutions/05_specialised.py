# ---
# exercise: 05_specialised
# ---

# %% [markdown] locked="specialised-statement"
# # A warp that only fetches · 10 points
#
# `x` has shape (blocks, tiles, 128); blocks have 160 threads. The first warp fetches the tiles into a ring of three; the other four warps,
# threads 32 to 159, compute `y[b, c] += x[b, k, c] * x[b, k, (c + 1) % 128]`.
#
# Fetching and computing run at their own pace. They wait for each other only at mbarriers: two for each place of the ring.
#
# | what | points |
# |---|---|
# | every value is right, whatever the number of tiles | 4 |
# | no hazards, and it ends | 3 |
# | global memory is read by asynchronous copies | 1 |
# | producer and consumers wait at mbarriers | 2 |

# %% locked="specialised-setup"
# %load_ext grader
import numpy as np
from numba import cuda, float32, uint64

from grader.kit import cp_async, cp_async_arrive, mbarrier_arrive, mbarrier_init, mbarrier_wait

TILE = 128
STAGES = 3

# %% [markdown] locked="specialised-task"
# `full[s]` says that place `s` has been filled, `empty[s]` that it may be filled again. `mbarrier_wait(bars, s, parity)` waits until the
# phase of that parity is over; phases are numbered 0, 1, 0, 1, ... A lane of the producer copies four elements at a time:
# `cp_async(ring, (s, 4 * t), x, (b, k, 4 * t), 16)`.

# %% answer="specialised-answer"
@cuda.jit
def specialised(x, y):
    ring = cuda.shared.array((STAGES, TILE), float32, 16)
    full = cuda.shared.array(STAGES, uint64)
    empty = cuda.shared.array(STAGES, uint64)
    t = cuda.threadIdx.x
    b = cuda.blockIdx.x
    tiles = x.shape[1]
    ### BEGIN SOLUTION
    if t < STAGES:
        mbarrier_init(full, t, 32)
        mbarrier_init(empty, t, TILE)
    cuda.syncthreads()
    if t < 32:
        for k in range(tiles):
            s = k % STAGES
            if k >= STAGES:
                mbarrier_wait(empty, s, (k // STAGES - 1) & 1)
            cp_async(ring, (s, 4 * t), x, (b, k, 4 * t), 16)
            cp_async_arrive(full, s)
    else:
        c = t - 32
        total = float32(0)
        for k in range(tiles):
            s = k % STAGES
            mbarrier_wait(full, s, (k // STAGES) & 1)
            total += ring[s, c] * ring[s, (c + 1) % TILE]
            mbarrier_arrive(empty, s)
        y[b, c] = total
    ### END SOLUTION



# %% [markdown] locked="specialised-try"
# Try it on five tiles of ones: every sum should be 5.

# %% locked="specialised-look"
y = cuda.to_device(np.zeros((2, TILE), np.float32))
specialised[2, 32 + TILE](cuda.to_device(np.ones((2, 5, TILE), np.float32)), y)
print(np.unique(y.copy_to_host()))

# %% [markdown] locked="specialised-check-text"
# The grader's table for your kernel. Run it as often as you like: it costs nothing and counts for nothing.

# %% locked="specialised-check"
check("05_specialised", specialised)

# %% [markdown] locked="specialised-hints"
# <details><summary>First hint</summary>
#
# Two questions for each place of the ring: is it full, and is it empty again? Who knows, and who asks?
#
# </details>
# <details><summary>Second hint</summary>
#
# `full[s]` counts the 32 lanes of the producer, whose copies arrive there (`cp_async_arrive`); `empty[s]` counts the 128 consumers.
# The producer waits for `empty[s]` from its fourth tile on.
#
# </details>
# <details><summary>Third hint</summary>
#
# Tile `k` is in place `s = k % 3`, in round `k // 3`. A consumer waits for parity `(k // 3) & 1` of `full[s]`; the producer, before it
# fills `s` again, for parity `(k // 3 - 1) & 1` of `empty[s]`.
#
# </details>

# %% [markdown] locked="specialised-graded"
# The next cell is for your marks; leave it as it is. The grader runs it on its own machine, with inputs and sizes of its own.

# %% test="05_specialised" points=10
check("05_specialised", specialised, graded=True)
