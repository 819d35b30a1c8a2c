# ---
# exercise: 02_transpose
# ---

# %% [markdown] locked="transpose-statement"
# # Transpose without bank conflicts · 10 points
#
# Write the transpose of `a` to `out`. Global memory is to be read in rows *and* written in rows. Each block has 32 x 8
# threads and looks after one tile of 32 x 32 elements, so every thread takes four. `a` has any shape; it need not be
# a multiple of 32, nor square.
#
# | what | points |
# |---|---|
# | every value is right, at every shape | 3 |
# | no hazards: no stray access, no race, nothing read before it is written | 1.5 |
# | at least 1.4 times as fast as a transpose that writes columns | 2 |
# | global memory is read and written in whole sectors | 1.5 |
# | shared memory is used without bank conflicts | 2 |

# %% locked="transpose-setup"
# %load_ext grader
import numpy as np
from numba import cuda, float32

# %% [markdown] locked="transpose-task"
# The threads of a block are `(tx, ty)` with `tx` from 0 to 31 and `ty` from 0 to 7. Block `(bx, by)` of the grid reads the
# tile of `a` that begins in column `32 * bx` and row `32 * by`.

# %% answer="transpose-answer"
@cuda.jit
def transpose(a, out):
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    bx, by = cuda.blockIdx.x, cuda.blockIdx.y
    ### BEGIN SOLUTION
    tile = cuda.shared.array((32, 33), float32)
    x = 32 * bx + tx
    y = 32 * by + ty
    for j in range(0, 32, 8):
        if x < a.shape[1] and y + j < a.shape[0]:
            tile[ty + j, tx] = a[y + j, x]
    cuda.syncthreads()
    x = 32 * by + tx
    y = 32 * bx + ty
    for j in range(0, 32, 8):
        if x < out.shape[1] and y + j < out.shape[0]:
            out[y + j, x] = tile[tx, ty + j]
    ### END SOLUTION


# %% [markdown] locked="transpose-try"
# Try it on a matrix that is no multiple of the tile.

# %% locked="transpose-look"
a = np.arange(40 * 70, dtype=np.float32).reshape(40, 70)
out = cuda.to_device(np.zeros((70, 40), np.float32))
transpose[(3, 2), (32, 8)](cuda.to_device(a), out)
print(np.count_nonzero(out.copy_to_host() != a.T), "of", a.size, "elements differ")

# %% [markdown] locked="transpose-check-text"
# The grader's table for your kernel. Run it as often as you like: it costs nothing and counts for nothing.

# %% locked="transpose-check"
check("02_transpose", transpose)

# %% [markdown] locked="transpose-hints"
# <details><summary>First hint</summary>
#
# Reading rows is fast, writing columns is not. Where could a tile be turned round cheaply?
#
# </details>
# <details><summary>Second hint</summary>
#
# Load a 32 x 32 tile into shared memory row by row, wait, and write it out row by row with the roles of `x` and `y`
# swapped. Each of the 32 x 8 threads handles four elements, eight rows apart.
#
# </details>
# <details><summary>Third hint</summary>
#
# `tile = cuda.shared.array((32, 33), float32)`: the extra column puts the elements of a column in 32 banks. In the output,
# the tile begins in column `32 * by` and row `32 * bx`.
#
# </details>

# %% [markdown] locked="transpose-graded"
# The next cell is for your marks; leave it as it is. The grader runs it on its own machine, with inputs and sizes of its own.

# %% test="02_transpose" points=10
check("02_transpose", transpose, graded=True)
