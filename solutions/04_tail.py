# ---
# exercise: 04_tail
# ---

# %% [markdown] locked="tail-statement"
# # A tail filled with zeros · 10 points
#
# Compute `y[i] = x[i] + 2 x[i+1] + 3 x[i+2] + 4 x[i+3]` for every `i`, with zero beyond the end of `x`.
#
# A block of 128 threads needs 131 elements of `x`. Stage them in shared memory with asynchronous copies, and let the copies
# themselves write the zeros.
#
# | what | points |
# |---|---|
# | every value is right, at every size | 4 |
# | no hazards: no stray access, no race, nothing read before it is written | 3 |
# | global memory is read by asynchronous copies | 3 |

# %% locked="tail-setup"
# %load_ext grader
import numpy as np
from numba import cuda, float32

from grader.kit import cp_async_wait_all, cp_async_zfill

BLOCK = 128
WIDTH = BLOCK + 3

# %% [markdown] locked="tail-task"
# `cp_async_zfill(tile, k, x, j, 4, n)` copies the first `n` of the 4 bytes of `x[j]` to `tile[k]` and fills the rest with zeros.
# `j` must lie inside `x` even when `n` is 0.

# %% answer="tail-answer"
@cuda.jit
def window(x, y):
    tile = cuda.shared.array(WIDTH, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    n = x.size
    ### BEGIN SOLUTION
    cp_async_zfill(tile, t, x, i if i < n else 0, 4, 4 if i < n else 0)
    if t < 3:
        j = i + BLOCK
        cp_async_zfill(tile, t + BLOCK, x, j if j < n else 0, 4, 4 if j < n else 0)
    cp_async_wait_all()
    cuda.syncthreads()
    ### END SOLUTION
    if i < n:
        y[i] = tile[t] + float32(2) * tile[t + 1] + float32(3) * tile[t + 2] + float32(4) * tile[t + 3]



# %% [markdown] locked="tail-try"
# Try it: 130 ones in two blocks. All sums should be 10, but for the last three: 6, 3, 1.

# %% locked="tail-look"
y = cuda.to_device(np.zeros(130, np.float32))
window[2, BLOCK](cuda.to_device(np.ones(130, np.float32)), y)
print(y.copy_to_host()[[0, 124, 125, 126, 127, 128, 129]])

# %% [markdown] locked="tail-check-text"
# The grader's table for your kernel. Run it as often as you like: it costs nothing and counts for nothing.

# %% locked="tail-check"
check("04_tail", window)

# %% [markdown] locked="tail-hints"
# <details><summary>First hint</summary>
#
# How many elements of `x` does a block of 128 threads need? Which of them may lie beyond the end?
#
# </details>
# <details><summary>Second hint</summary>
#
# Thread `t` copies `tile[t]`; threads 0 to 2 copy one more each. Tell `cp_async_zfill` how many of the 4 bytes are there: 4, or 0
# beyond the end, and then with an index that is inside.
#
# </details>
# <details><summary>Third hint</summary>
#
# `cp_async_zfill(tile, t, x, i if i < n else 0, 4, 4 if i < n else 0)`; after all copies `cp_async_wait_all()`, and then
# `cuda.syncthreads()`.
#
# </details>

# %% [markdown] locked="tail-graded"
# The next cell is for your marks; leave it as it is. The grader runs it on its own machine, with inputs and sizes of its own.

# %% test="04_tail" points=10
check("04_tail", window, graded=True)
