# ---
# exercise: 05_pipeline
# ---

# %% [markdown] locked="pipeline-statement"
# # A pipeline of three stages · 10 points
#
# `x` has shape (blocks, tiles, 128). Each block walks over its tiles and sums, for each of its 128 threads,
# `y[b, t] += x[b, k, t] * x[b, k, 127 - t]`.
#
# The tiles come by asynchronous copies into a ring of three: while one is in use, two are under way.
#
# | what | points |
# |---|---|
# | every value is right, whatever the number of tiles | 4 |
# | no hazards: no race, no copy used before it has arrived | 2 |
# | global memory is read by asynchronous copies | 2 |
# | two groups of copies are under way while a tile is in use | 2 |

# %% locked="pipeline-setup"
# %load_ext grader
import numpy as np
from numba import cuda, float32

from grader.kit import cp_async, cp_async_commit, cp_async_wait

TILE = 128
STAGES = 3

# %% [markdown] locked="pipeline-task"
# Tile `k` belongs in `ring[k % STAGES]`. There may be fewer tiles than stages.

# %% answer="pipeline-answer"
@cuda.jit
def pipeline(x, y):
    ring = cuda.shared.array((STAGES, TILE), float32)
    t = cuda.threadIdx.x
    b = cuda.blockIdx.x
    tiles = x.shape[1]
    total = float32(0)
    ### BEGIN SOLUTION
    for k in range(STAGES - 1):
        if k < tiles:
            cp_async(ring, (k, t), x, (b, k, t), 4)
        cp_async_commit()
    for k in range(tiles):
        ahead = k + STAGES - 1
        if ahead < tiles:
            cp_async(ring, (ahead % STAGES, t), x, (b, ahead, t), 4)
        cp_async_commit()
        cp_async_wait(2)
        cuda.syncthreads()
        total += ring[k % STAGES, t] * ring[k % STAGES, TILE - 1 - t]
        cuda.syncthreads()
    ### END SOLUTION
    y[b, t] = total



# %% [markdown] locked="pipeline-try"
# Try it on five tiles of ones: every sum should be 5.

# %% locked="pipeline-look"
y = cuda.to_device(np.zeros((2, TILE), np.float32))
pipeline[2, TILE](cuda.to_device(np.ones((2, 5, TILE), np.float32)), y)
print(np.unique(y.copy_to_host()))

# %% [markdown] locked="pipeline-check-text"
# The grader's table for your kernel. Run it as often as you like: it costs nothing and counts for nothing.

# %% locked="pipeline-check"
check("05_pipeline", pipeline)

# %% [markdown] locked="pipeline-hints"
# <details><summary>First hint</summary>
#
# In step `k` tile `k` is used. Which tile can be started in the same step, and into which place of the ring?
#
# </details>
# <details><summary>Second hint</summary>
#
# Before the loop start tiles 0 and 1, each in a group of its own, as far as there are so many. In step `k` start tile `k + 2` into
# place `(k + 2) % 3`, commit, wait until two groups are left, barrier, use, barrier.
#
# </details>
# <details><summary>Third hint</summary>
#
# Commit in every step, whether there was something to copy or not: then `cp_async_wait(2)` means tile `k` in every step.
#
# </details>

# %% [markdown] locked="pipeline-graded"
# The next cell is for your marks; leave it as it is. The grader runs it on its own machine, with inputs and sizes of its own.

# %% test="05_pipeline" points=10
check("05_pipeline", pipeline, graded=True)
