# ---
# exercise: 03_buffers
# ---

# %% [markdown] locked="buffers-statement"
# # Two buffers, one barrier · 10 points
#
# `x` holds groups of 64 numbers. The first `marks` numbers of a group are its landmarks, and `y[g, t]` says how far number `t` of
# group `g` is from all of them: the sum of `|x[g, k] - x[g, t]|` over `k < marks`. A block of 64 threads, two warps, does one group
# after the other. Every thread needs all landmarks, so the group goes to shared memory.
#
# With one buffer that takes two barriers a group: one until the group is there, and one until nobody reads it any more. Write it
# with **two buffers in turn**: the next group is on its way while this one is used, and **one** barrier a group is enough.
#
# | what | points |
# |---|---|
# | every value is right, at every size | 3 |
# | no hazards: no stray access, no race, nothing read before it is written | 2 |
# | at least 1.4 times as fast as one buffer, without fetching ahead | 2 |
# | one barrier a group | 2 |
# | every number comes from global memory once | 1 |

# %% locked="buffers-setup"
# %load_ext grader
import numpy as np
from numba import cuda, float32

from grader.kit import lab

GROUP = 64

# %% [markdown] locked="buffers-task"
# `group_sum` sums over the landmarks that lie in a buffer. What is missing is the loop over the groups `g`, `g + step`, ... of this
# block. There may be any number of them, an odd one too, and none at all.

# %% answer="buffers-answer"
@cuda.jit
def group_sum(buffer, me, marks):
    total = float32(0)
    for k in range(marks):
        total += abs(buffer[k] - me)
    return total


@cuda.jit
def spread(x, y, marks):
    even = cuda.shared.array(GROUP, float32)
    odd = cuda.shared.array(GROUP, float32)
    t, step = cuda.threadIdx.x, cuda.gridDim.x
    g = cuda.blockIdx.x
    ### BEGIN SOLUTION
    coming = x[g, t] if g < x.shape[0] else float32(0)
    while g < x.shape[0]:
        me = coming
        even[t] = me
        cuda.syncthreads()
        if g + step < x.shape[0]:
            coming = x[g + step, t]
        y[g, t] = group_sum(even, me, marks)
        g += step
        if g < x.shape[0]:
            me = coming
            odd[t] = me
            cuda.syncthreads()
            if g + step < x.shape[0]:
                coming = x[g + step, t]
            y[g, t] = group_sum(odd, me, marks)
            g += step
    ### END SOLUTION


# %% [markdown] locked="buffers-try"
# Try it: in a group of 0, 1, ..., 63 with two landmarks, number `t` is `t` away from the first and `|t - 1|` from the second.
# Then the time of a longer one.

# %% locked="buffers-look"
x = np.tile(np.arange(GROUP, dtype=np.float32), (5, 1))
y = cuda.to_device(np.zeros((5, GROUP), np.float32))
spread[2, GROUP](cuda.to_device(x), y, 2)
print(y.copy_to_host()[:, [0, 1, 2, 3, 63]])

x, y = cuda.to_device(np.ones((4000, GROUP), np.float32)), cuda.device_array((4000, GROUP), np.float32)
print(f"{lab.microseconds(lambda: spread[40, GROUP](x, y, 16)):.1f} us, {lab.how()}")

# %% [markdown] locked="buffers-check-text"
# The grader's table for your kernel. Run it as often as you like: it costs nothing and counts for nothing.

# %% locked="buffers-check"
check("03_buffers", spread)

# %% [markdown] locked="buffers-hints"
# <details><summary>First hint</summary>
#
# With one buffer there are two barriers: one until the group is there, and one until nobody reads it any more. Which of them is
# there only because there is one buffer?
#
# </details>
# <details><summary>Second hint</summary>
#
# Two shared arrays, `even` and `odd`, and a body of the loop that does a group with each: the number that comes next is in a
# register. Register to `even`, barrier, ask for the next number, sum over `even`; then the same with `odd`.
#
# </details>
# <details><summary>Third hint</summary>
#
# `while g < x.shape[0]: me = coming; even[t] = me; barrier; if g + step < x.shape[0]: coming = x[g + step, t];` the sum over
# `even`; `g += step; if g < x.shape[0]:` the same with `odd`. No barrier behind the sums.
#
# </details>

# %% [markdown] locked="buffers-graded"
# The next cell is for your marks; leave it as it is. The grader runs it on its own machine, with inputs and sizes of its own.

# %% test="03_buffers" points=10
check("03_buffers", spread, graded=True)
