# ---
# exercise: 00_mend
# ---

# %% [markdown] locked="mend-statement"
# # Mend a broken kernel · 10 points
#
# Each element of `y` is to be the weighted sum of three neighbours, `y[i] = x[i-1] + 2 * x[i] + x[i+1]`, with zero beyond both
# ends of `x`. Every block copies its part of `x` to shared memory, with one more element on either side (the **halo**),
# and computes from there.
#
# The kernel below has **two mistakes**. One gives wrong values at the edge of each block. The other usually gives right
# values, which is worse.
#
# | what | points |
# |---|---|
# | every value is right, at every size | 4 |
# | no hazards: no stray access, no race, nothing read before it is written | 6 |

# %% locked="mend-setup"
# %load_ext grader
import numpy as np
from numba import cuda, float32

BLOCK = 128
WIDTH = BLOCK + 2     # a block's elements, and one neighbour on either side

# %% [markdown] locked="mend-task"
# Mend it. Thread `t` looks after element `i` of `x`, which belongs at `tile[t + 1]`.

# %% answer="mend-answer"
@cuda.jit
def mend(x, y):
    tile = cuda.shared.array(WIDTH, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    tile[t + 1] = x[i] if i < x.size else float32(0)
    if t == 0:
        tile[0] = x[i - 1] if i > 0 else float32(0)
    ### BEGIN SOLUTION
    if t == BLOCK - 1:
        tile[BLOCK + 1] = x[i + 1] if i + 1 < x.size else float32(0)
    cuda.syncthreads()
    ### END SOLUTION
    if i < x.size:
        y[i] = tile[t] + float32(2) * tile[t + 1] + tile[t + 2]


# %% [markdown] locked="mend-try"
# Try it: two blocks of 128, all ones. Every sum should be 4, but for the first and the last, which are 3.

# %% locked="mend-look"
y = cuda.to_device(np.zeros(256, np.float32))
mend[2, BLOCK](cuda.to_device(np.ones(256, np.float32)), y)
print(y.copy_to_host()[[0, 1, 126, 127, 128, 129, 254, 255]])

# %% [markdown] locked="mend-check-text"
# The grader's table for your kernel. Run it as often as you like: it costs nothing and counts for nothing.

# %% locked="mend-check"
check("00_mend", mend)

# %% [markdown] locked="mend-hints"
# <details><summary>First hint</summary>
#
# One mistake makes the last element of a block wrong, the other depends on which warp is faster.
#
# </details>
# <details><summary>Second hint</summary>
#
# Which thread fetches the right-hand neighbour of the block, and does everybody wait until it has?
#
# </details>
# <details><summary>Third hint</summary>
#
# The right-hand halo is for thread `BLOCK - 1` to fetch; then `cuda.syncthreads()`, before anybody reads.
#
# </details>

# %% [markdown] locked="mend-graded"
# The next cell is for your marks; leave it as it is. The grader runs it on its own machine, with inputs and sizes of its own.

# %% test="00_mend" points=10
check("00_mend", mend, graded=True)
