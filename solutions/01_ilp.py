# ---
# exercise: 01_ilp
# ---

# %% [markdown] locked="ilp-statement"
# # Many loads, few warps · 10 points
#
# Compute `y[i] = x[i] * x[i] * x[i]` for every `i`. The grid is fixed, and small on purpose: 40 blocks of 64 threads, which is
# two warps on an SM, as if the rest of the GPU belonged to somebody else. You cannot have more warps. So let every thread have
# several loads under way before it needs the first.
#
# | what | points |
# |---|---|
# | every value is right, at every size | 3.5 |
# | no hazards: no stray access, no race, nothing read before it is written | 1.5 |
# | at least twice as fast as one load at a time; all points near the speed of eight at a time | 4 |
# | no element is read more often than needed, and neighbouring threads read neighbours | 1 |

# %% locked="ilp-setup"
# %load_ext grader
import numpy as np
from numba import cuda

from grader.kit import lab

# %% [markdown] locked="ilp-task"
# The kernel below is right, and slow. Make it fast. `x` has any size: what is left over at the end must be done as well.

# %% answer="ilp-answer"
@cuda.jit
def ilp(x, y):
    i = cuda.grid(1)
    step = cuda.gridsize(1)
    ### BEGIN SOLUTION
    while i + 7 * step < x.size:
        a, b, c, d = x[i], x[i + step], x[i + 2 * step], x[i + 3 * step]
        e, f, g, h = x[i + 4 * step], x[i + 5 * step], x[i + 6 * step], x[i + 7 * step]
        y[i] = a * a * a
        y[i + step] = b * b * b
        y[i + 2 * step] = c * c * c
        y[i + 3 * step] = d * d * d
        y[i + 4 * step] = e * e * e
        y[i + 5 * step] = f * f * f
        y[i + 6 * step] = g * g * g
        y[i + 7 * step] = h * h * h
        i += 8 * step
    ### END SOLUTION
    while i < x.size:
        y[i] = x[i] * x[i] * x[i]
        i += step


# %% [markdown] locked="ilp-try"
# Try it: 1000 elements, and then how long half a million take.

# %% locked="ilp-look"
x = np.arange(1000, dtype=np.float32)
y = cuda.to_device(np.zeros(1000, np.float32))
ilp[2, 64](cuda.to_device(x), y)
print("right:", np.array_equal(y.copy_to_host(), x * x * x))

x, y = cuda.to_device(np.ones(1 << 19, np.float32)), cuda.device_array(1 << 19, np.float32)
print(f"{lab.microseconds(lambda: ilp[40, 64](x, y)):.1f} us, {lab.how()}")

# %% [markdown] locked="ilp-check-text"
# The grader's table for your kernel. Run it as often as you like: it costs nothing and counts for nothing.

# %% locked="ilp-check"
check("01_ilp", ilp)

# %% [markdown] locked="ilp-hints"
# <details><summary>First hint</summary>
#
# How many loads are under way on an SM with two warps? What would it take to have eight times as many?
#
# </details>
# <details><summary>Second hint</summary>
#
# Writing the loop out four times is not enough, if every load still comes after a store. Load several elements into variables of
# their own first, then store them all.
#
# </details>
# <details><summary>Third hint</summary>
#
# In front of the plain loop: `while i + 7 * step < x.size:` with eight loads `x[i]`, `x[i + step]`, ..., then eight stores, then
# `i += 8 * step`. The plain loop does what is left over.
#
# </details>

# %% [markdown] locked="ilp-graded"
# The next cell is for your marks; leave it as it is. The grader runs it on its own machine, with inputs and sizes of its own.

# %% test="01_ilp" points=10
check("01_ilp", ilp, graded=True)
