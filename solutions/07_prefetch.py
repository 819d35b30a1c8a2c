# ---
# exercise: 07_prefetch
# ---

# %% [markdown] locked="prefetch-statement"
# # No page fault left · 10 points
#
# `x` and `y` are managed arrays, and both lie at the host. The kernel `square` computes `y` from `x`; then the host takes
# `y` over into `result`, an ordinary array. You write the **host's code**: have every page where it is needed, before it is
# needed. Neither the kernel nor the host shall fault.
#
# | what | points |
# |---|---|
# | every value is right, at every size, and there when the function returns | 3 |
# | no hazards: nothing is read before it is there | 1 |
# | at least 1.5 times as fast as fetching every page by a fault; all points near the speed of none | 4 |
# | no page fault is left | 2 |

# %% locked="prefetch-setup"
# %load_ext grader
import numpy as np
from numba import cuda, float32

from grader.kit import lab, prefetch

THREADS = 256


@cuda.jit
def square(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] * x[i] + float32(2)


# %% [markdown] locked="prefetch-task"
# Into the gap goes the launch, `square[blocks, THREADS, stream](x, y)`, and what keeps everybody from waiting for pages. With the launch
# alone the function is right, and slow: try that first.
#
# Everything that your function needs it makes itself, at every call: the grader records what it asks of CUDA, and replays
# that with numbers of its own. So leave the arithmetic to the kernel.

# %% answer="prefetch-answer"
def fetch(x, y, result):
    blocks, stream = -(-x.size // THREADS), cuda.stream()
    ### BEGIN SOLUTION
    prefetch(x, stream=stream)
    prefetch(y, stream=stream)
    square[blocks, THREADS, stream](x, y)
    prefetch(y, "host", stream)
    ### END SOLUTION
    stream.synchronize()
    result[:] = y


# %% [markdown] locked="prefetch-try"
# Try it: `1, 2, 3, ...` should give `3, 6, 11, ...`. Then look for boxes in the row of page faults.

# %% locked="prefetch-look"
n = 1 << 19
x, y = cuda.managed_array(n, np.float32), cuda.managed_array(n, np.float32)
result = np.zeros(n, np.float32)
x[:], y[:] = np.arange(1, n + 1), 0
fetch(x, y, result)
print(result[:3])

x[:], y[:] = 1, 0
with lab.timeline() as shown:
    fetch(x, y, result)
shown.draw("Who waits for pages?")
print(f"fault groups: kernel {shown.fault_groups:.0f}, host {shown.host_fault_groups:.0f}")

# %% [markdown] locked="prefetch-check-text"
# The grader's table for your function. Run it as often as you like: it costs nothing and counts for nothing.

# %% locked="prefetch-check"
check("07_prefetch", fetch)

# %% [markdown] locked="prefetch-hints"
# <details><summary>First hint</summary>
#
# Three touches come from the wrong side: the kernel reads `x`, the kernel writes `y`, the host reads `y`. What could be asked for
# before each of them?
#
# </details>
# <details><summary>Second hint</summary>
#
# `prefetch(array)` is work in a stream, so it must come before the launch in the same stream. An array that the kernel only
# writes has to be there too. After the kernel it is the host who waits.
#
# </details>
# <details><summary>Third hint</summary>
#
# `prefetch(x, stream=stream)`, `prefetch(y, stream=stream)`, the launch, `prefetch(y, "host", stream)`.
#
# </details>

# %% [markdown] locked="prefetch-graded"
# The next cell is for your marks; leave it as it is. The grader runs it on its own machine, with inputs and sizes of its own.

# %% test="07_prefetch" points=10
check("07_prefetch", fetch, graded=True)
