# ---
# exercise: 04_matmul
# ---

# %% [markdown] locked="matmul-ahead-statement"
# # A matrix product that copies ahead · 10 points
#
# The tiled matrix product of unit 02, now with asynchronous copies: while one pair of tiles is in use, the next pair is under way.
# All sizes are multiples of 16, so nothing has to be filled with zeros.
#
# | what | points |
# |---|---|
# | every value is right | 3 |
# | no hazards: no race, no copy used before it has arrived | 3 |
# | global memory is read by asynchronous copies | 2 |
# | the next copies are under way while the last ones are used | 2 |

# %% locked="matmul-ahead-setup"
# %load_ext grader
import numpy as np
from numba import cuda, float32

from grader.kit import cp_async, cp_async_commit, cp_async_wait

TILE = 16

# %% [markdown] locked="matmul-ahead-task"
# `tile_a` and `tile_b` hold two tiles each: `tile_a[0]` and `tile_a[1]`. Step `k` uses number `k % 2`.

# %% answer="matmul-ahead-answer"
@cuda.jit
def matmul(a, b, c):
    tile_a = cuda.shared.array((2, TILE, TILE), float32)
    tile_b = cuda.shared.array((2, TILE, TILE), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.grid(2)                       # this thread's element is c[y, x]
    steps = a.shape[1] // TILE
    total = float32(0)
    ### BEGIN SOLUTION
    cp_async(tile_a, (0, ty, tx), a, (y, tx), 4)
    cp_async(tile_b, (0, ty, tx), b, (ty, x), 4)
    cp_async_commit()
    for k in range(steps):
        now = k % 2
        if k + 1 < steps:
            cp_async(tile_a, (1 - now, ty, tx), a, (y, (k + 1) * TILE + tx), 4)
            cp_async(tile_b, (1 - now, ty, tx), b, ((k + 1) * TILE + ty, x), 4)
        cp_async_commit()
        cp_async_wait(1)
        cuda.syncthreads()
        for j in range(TILE):
            total += tile_a[now, ty, j] * tile_b[now, j, tx]
        cuda.syncthreads()
    ### END SOLUTION
    c[y, x] = total



# %% [markdown] locked="matmul-ahead-try"
# Try it on a small product.

# %% locked="matmul-ahead-look"
rng = np.random.default_rng(1)
a, b = rng.random((32, 48), np.float32), rng.random((48, 16), np.float32)
c = cuda.to_device(np.zeros((32, 16), np.float32))
matmul[(1, 2), (TILE, TILE)](cuda.to_device(a), cuda.to_device(b), c)
print("largest difference:", np.abs(c.copy_to_host() - a @ b).max())

# %% [markdown] locked="matmul-ahead-check-text"
# The grader's table for your kernel. Run it as often as you like: it costs nothing and counts for nothing.

# %% locked="matmul-ahead-check"
check("04_matmul", matmul)

# %% [markdown] locked="matmul-ahead-hints"
# <details><summary>First hint</summary>
#
# Two tiles of each matrix are needed: one in use, one that is being filled. Which is which in step `k`?
#
# </details>
# <details><summary>Second hint</summary>
#
# Start the copy of tile 0 before the loop. In step `k` start tile `k + 1`, commit, then wait until only the newest group is
# under way.
#
# </details>
# <details><summary>Third hint</summary>
#
# `cp_async_commit()` in every step, also in the last one, where there is nothing left to copy: then `cp_async_wait(1)` means tile `k`
# in every step. A second `cuda.syncthreads()` before the tile is overwritten.
#
# </details>

# %% [markdown] locked="matmul-ahead-graded"
# The next cell is for your marks; leave it as it is. The grader runs it on its own machine, with inputs and sizes of its own.

# %% test="04_matmul" points=10
check("04_matmul", matmul, graded=True)
