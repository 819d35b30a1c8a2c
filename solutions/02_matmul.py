# ---
# exercise: 02_matmul
# ---

# %% [markdown] locked="matmul-statement"
# # Tiled matrix product · 10 points
#
# Compute `c = a @ b` with blocks of 16 x 16 threads, one thread for each element of `c`. Walk along `k` in steps of 16: all
# threads together load one tile of `a` and one of `b` into shared memory, use them for sixteen multiplications each, and go on.
# No size need be a multiple of 16.
#
# | what | points |
# |---|---|
# | every value is right, at every shape | 3 |
# | no hazards: no stray access, no race, nothing read before it is written | 2 |
# | at least 1.2 times as fast as a product that reads everything from global memory | 3 |
# | global memory is not read more often than needed | 2 |

# %% locked="matmul-setup"
# %load_ext grader
import numpy as np
from numba import cuda, float32

TILE = 16

# %% [markdown] locked="matmul-task"
# `a` has shape (m, k), `b` (k, n), `c` (m, n). Start the sum with `float32(0)`: a plain `0.0` would make it float64.

# %% answer="matmul-answer"
@cuda.jit
def matmul(a, b, c):
    tile_a = cuda.shared.array((TILE, TILE), float32)
    tile_b = cuda.shared.array((TILE, TILE), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.grid(2)                       # this thread's element is c[y, x]
    total = float32(0)
    ### BEGIN SOLUTION
    for k in range(0, a.shape[1], TILE):
        tile_a[ty, tx] = a[y, k + tx] if y < a.shape[0] and k + tx < a.shape[1] else float32(0)
        tile_b[ty, tx] = b[k + ty, x] if k + ty < b.shape[0] and x < b.shape[1] else float32(0)
        cuda.syncthreads()
        for j in range(TILE):
            total += tile_a[ty, j] * tile_b[j, tx]
        cuda.syncthreads()
    ### END SOLUTION
    if y < c.shape[0] and x < c.shape[1]:
        c[y, x] = total


# %% [markdown] locked="matmul-try"
# Try it on a small product of odd shape.

# %% locked="matmul-look"
rng = np.random.default_rng(1)
a, b = rng.random((20, 35), np.float32), rng.random((35, 18), np.float32)
c = cuda.to_device(np.zeros((20, 18), np.float32))
matmul[(2, 2), (TILE, TILE)](cuda.to_device(a), cuda.to_device(b), c)
print("largest difference:", np.abs(c.copy_to_host() - a @ b).max())

# %% [markdown] locked="matmul-check-text"
# The grader's table for your kernel. Run it as often as you like: it costs nothing and counts for nothing.

# %% locked="matmul-check"
check("02_matmul", matmul)

# %% [markdown] locked="matmul-hints"
# <details><summary>First hint</summary>
#
# Thread `(tx, ty)` of a block reads row `y` of `a` and column `x` of `b`. How many threads of the block read the same row?
#
# </details>
# <details><summary>Second hint</summary>
#
# Each step: load one element of each tile per thread, wait, multiply sixteen times, wait again. Why is the second wait
# needed?
#
# </details>
# <details><summary>Third hint</summary>
#
# Load zero where a tile reaches beyond the matrix. Two `cuda.syncthreads()` per step, neither of them inside an `if`.
#
# </details>

# %% [markdown] locked="matmul-graded"
# The next cell is for your marks; leave it as it is. The grader runs it on its own machine, with inputs and sizes of its own.

# %% test="02_matmul" points=10
check("02_matmul", matmul, graded=True)
