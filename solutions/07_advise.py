# ---
# exercise: 07_advise
# ---

# %% [markdown] locked="advise-statement"
# # A table for both sides · 10 points
#
# `table` is a managed array at the host. In each of eight rounds a kernel reads all of it, and then the host saves an
# eighth of it into `saved`. Nobody writes to it, and still it travels back and forth. Stop that.
#
# | what | points |
# |---|---|
# | every value is right, at every size, and there when the function returns | 3 |
# | no hazards: nothing is read before it is there | 1 |
# | at least 3 times as fast as it is now; all points near the speed of a table that travels once | 4 |
# | no page fault is left | 2 |

# %% locked="advise-setup"
# %load_ext grader
import numpy as np
from numba import cuda, float32

from grader.kit import advise, lab, prefetch

THREADS, ROUNDS = 256, 8


@cuda.jit
def start(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i]


@cuda.jit
def add(table, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = float32(0.5) * y[i] + table[i]


# %% [markdown] locked="advise-task"
# The function below is right, and slow. `x` and `y` are on the device already; only the table is the matter. Leave the rounds as they
# are, a kernel and then an eighth for the host: you change what happens before them. And leave the arithmetic to the kernels: the
# grader records what your function asks of CUDA, and replays that with numbers of its own.

# %% answer="advise-answer"
def rounds(table, x, y, saved):
    blocks, size = -(-table.size // THREADS), -(-table.size // ROUNDS)
    ### BEGIN SOLUTION
    advise(table, "read mostly")
    prefetch(table)
    ### END SOLUTION
    start[blocks, THREADS](x, y)
    for k in range(ROUNDS):
        add[blocks, THREADS](table, y)
        cuda.synchronize()
        part = slice(k * size, (k + 1) * size)
        saved[part] = table[part]


# %% [markdown] locked="advise-try"
# Try it: with ones everywhere `y` comes close to 2. Then look for boxes in the row of page faults.

# %% locked="advise-look"
n = 1 << 19
table, saved = cuda.managed_array(n, np.float32), np.zeros(n, np.float32)
table[:] = 1
x, y = cuda.to_device(np.ones(n, np.float32)), cuda.device_array(n, np.float32)
rounds(table, x, y, saved)
print(y.copy_to_host()[:3], saved.sum() == n)

table[:] = 1
with lab.timeline() as shown:
    rounds(table, x, y, saved)
shown.draw("How often does the table travel?")
print(f"fault groups: kernel {shown.fault_groups:.0f}, host {shown.host_fault_groups:.0f}")

# %% [markdown] locked="advise-check-text"
# The grader's table for your function. Run it as often as you like: it costs nothing and counts for nothing.

# %% locked="advise-check"
check("07_advise", rounds)

# %% [markdown] locked="advise-hints"
# <details><summary>First hint</summary>
#
# Count how often each page of the table travels. Does anybody change it on the way?
#
# </details>
# <details><summary>Second hint</summary>
#
# Data that is only read may be in two places at once. Say so before the first kernel, by advice; then bring it to the device
# once, by a prefetch.
#
# </details>
# <details><summary>Third hint</summary>
#
# `advise(table, "read mostly")`, then `prefetch(table)`, then the loop as it is.
#
# </details>

# %% [markdown] locked="advise-graded"
# The next cell is for your marks; leave it as it is. The grader runs it on its own machine, with inputs and sizes of its own.

# %% test="07_advise" points=10
check("07_advise", rounds, graded=True)
