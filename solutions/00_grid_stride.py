# ---
# exercise: 00_grid_stride
# ---

# %% [markdown] locked="grid-stride-statement"
# # A grid-stride map · 10 points
#
# Compute `y[i] = x[i] * x[i] + 1` for every `i`.
#
# In the lesson there was a thread for every element. Often the grid has a fixed size, chosen to fill the GPU, and the
# array is longer (or shorter) than that. Then each thread takes several elements, in a loop.
#
# | what | points |
# |---|---|
# | every value is right, at every size, also where the array is shorter than the grid | 4 |
# | no hazards: no stray access, no race, nothing read before it is written | 2 |
# | at least 1.2 times as fast as a kernel whose threads each walk through a piece of their own | 2 |
# | memory is read and written in whole sectors | 2 |

# %% locked="grid-stride-setup"
# %load_ext grader
import numpy as np
from numba import cuda

# %% [markdown] locked="grid-stride-task"
# Fill in the gap. `cuda.grid(1)` is this thread's number, `cuda.gridsize(1)` how many threads there are in all.

# %% answer="grid-stride-answer"
@cuda.jit
def grid_stride(x, y):
    first = cuda.grid(1)
    ### BEGIN SOLUTION
    for i in range(first, x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1
    ### END SOLUTION


# %% [markdown] locked="grid-stride-try"
# Try it on something small: 10 elements, 4 threads.

# %% locked="grid-stride-look"
x = np.arange(10, dtype=np.float32)
y = cuda.to_device(np.zeros(10, np.float32))
grid_stride[1, 4](cuda.to_device(x), y)
print(y.copy_to_host())

# %% [markdown] locked="grid-stride-check-text"
# The grader's table for your kernel. Run it as often as you like: it costs nothing and counts for nothing.

# %% locked="grid-stride-check"
check("00_grid_stride", grid_stride)

# %% [markdown] locked="grid-stride-hints"
# <details><summary>First hint</summary>
#
# There are fewer threads than elements. Which elements should thread 0 take, besides `x[0]`?
#
# </details>
# <details><summary>Second hint</summary>
#
# Start each thread at its own number and let it move on by as many elements as the grid has threads. Neighbouring threads
# then always work on neighbouring elements, which is what memory likes.
#
# </details>
# <details><summary>Third hint</summary>
#
# `for i in range(first, x.size, cuda.gridsize(1)):`
#
# </details>

# %% [markdown] locked="grid-stride-graded"
# The next cell is for your marks; leave it as it is. The grader runs it on its own machine, with inputs and sizes of its own.

# %% test="00_grid_stride" points=10
check("00_grid_stride", grid_stride, graded=True)
