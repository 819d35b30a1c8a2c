# ---
# exercise: 03_stencil
# ---

# %% [markdown] locked="stencil-statement"
# # A stencil that fetches ahead · 10 points
#
# `y[i]` is the sum of `0.75 ** |k| * x[i + k]` for `k` from -16 to 16, with zero beyond both ends of `x`: a blur. A block of 128
# threads does one tile of 128 elements after the other. It copies the tile and its halo of 16 elements on either side to
# shared memory, and sums from there. There is one block on an SM, so nothing but your kernel can overlap loading and computing.
#
# | what | points |
# |---|---|
# | every value is right, at every size | 3.5 |
# | no hazards: no stray access, no race, nothing read before it is written | 1.5 |
# | at least 1.4 times as fast as loading and computing in turn | 4 |
# | no element is fetched more often than needed | 1 |

# %% locked="stencil-setup"
# %load_ext grader
import numpy as np
from numba import cuda, float32

from grader.kit import lab

TILE, RADIUS = 128, 16
WIDTH = TILE + 2 * RADIUS
Q = float32(0.75)

# %% [markdown] locked="stencil-task"
# The loop goes over the tiles of this block. Element `j` of `x` is the first that thread `t` fetches for a tile, and `j + TILE`
# is a second one for the first 32 threads. The sum itself is written for you, in `blurred` (from the far neighbours to the
# near ones, multiplying by `Q` at each step). What is missing is the loop over the tiles
# `for first in range(cuda.blockIdx.x * TILE, x.size, step)`: the fetching, ahead of its use, the sum, and the barriers.

# %% answer="stencil-answer"
@cuda.jit
def blurred(tile, t):
    s = float32(0)
    for k in range(RADIUS, 0, -1):
        s = (s + (tile[t + RADIUS - k] + tile[t + RADIUS + k])) * Q
    return s + tile[t + RADIUS]


@cuda.jit
def stencil(x, y):
    tile = cuda.shared.array(WIDTH, float32)
    t = cuda.threadIdx.x
    step = cuda.gridDim.x * TILE
    j = cuda.blockIdx.x * TILE + t - RADIUS
    ### BEGIN SOLUTION
    a = x[j] if 0 <= j < x.size else float32(0)
    b = x[j + TILE] if t < 2 * RADIUS and j + TILE < x.size else float32(0)
    for first in range(cuda.blockIdx.x * TILE, x.size, step):
        i = first + t
        tile[t] = a
        if t < 2 * RADIUS:
            tile[t + TILE] = b
        cuda.syncthreads()
        j += step
        a = x[j] if j < x.size else float32(0)
        b = x[j + TILE] if t < 2 * RADIUS and j + TILE < x.size else float32(0)
        if i < x.size:
            y[i] = blurred(tile, t)
        cuda.syncthreads()
    ### END SOLUTION


# %% [markdown] locked="stencil-try"
# Try it: 1000 ones. In the middle, every sum is `1 + 2 * (0.75 + 0.75**2 + ... + 0.75**16)`, about 6.94. Then the time of a
# longer one.

# %% locked="stencil-look"
x = np.ones(1000, np.float32)
y = cuda.to_device(np.zeros(1000, np.float32))
stencil[2, TILE](cuda.to_device(x), y)
print(y.copy_to_host()[[0, 1, 127, 128, 500, 998, 999]])

x, y = cuda.to_device(np.ones(1 << 18, np.float32)), cuda.device_array(1 << 18, np.float32)
print(f"{lab.microseconds(lambda: stencil[40, TILE](x, y)):.1f} us, {lab.how()}")

# %% [markdown] locked="stencil-check-text"
# The grader's table for your kernel. Run it as often as you like: it costs nothing and counts for nothing.

# %% locked="stencil-check"
check("03_stencil", stencil)

# %% [markdown] locked="stencil-hints"
# <details><summary>First hint</summary>
#
# Make it right first, with a load, a barrier, the sum and another barrier in each round. What do the four warps do from the moment
# they ask for a tile until it is there?
#
# </details>
# <details><summary>Second hint</summary>
#
# Fetch the first tile before the loop, into two variables. In the loop: variables to shared memory, barrier, fetch the next
# tile into the variables, sum. The variables are needed only in the next round.
#
# </details>
# <details><summary>Third hint</summary>
#
# `a = x[j] if 0 <= j < x.size else float32(0)`, and `b` for `t < 2 * RADIUS` in the same way from `j + TILE`. The next tile's
# `j` is `j + step`. A second barrier after the sum, because there is one buffer.
#
# </details>

# %% [markdown] locked="stencil-graded"
# The next cell is for your marks; leave it as it is. The grader runs it on its own machine, with inputs and sizes of its own.

# %% test="03_stencil" points=10
check("03_stencil", stencil, graded=True)
