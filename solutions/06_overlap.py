# ---
# exercise: 06_overlap
# ---

# %% [markdown] locked="overlap-statement"
# # A pipeline of chunks · 10 points
#
# `brighten` computes `h_y` from `h_x`. Both lie in pinned memory at the host; `d_x` and `d_y` are arrays of the same size on
# the device, for you to work in. This time you write no kernel: you write the **host's code**, which copies, launches and
# waits. Cut the work into chunks, and let the copies in, the kernels and the copies out of different chunks overlap.
#
# The kernel is slow on purpose: it runs in 4 blocks of 128 threads, as if the rest of the card belonged to somebody else. Leave
# it so.
#
# | what | points |
# |---|---|
# | every value is right, at every size, and there when the function returns | 3 |
# | no hazards: nothing is used before it has arrived | 1 |
# | at least 1.6 times as fast as in one piece | 3 |
# | a kernel runs during at least 40 % of the copies' time | 2 |
# | what is copied lies in pinned memory | 1 |

# %% locked="overlap-setup"
# %load_ext grader
import numpy as np
from numba import cuda, float32

from grader.kit import lab

BLOCKS, THREADS = 4, 128
CHUNKS = 8


@cuda.jit
def brighten(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + (float32(2) if x[i] > 0 else float32(1))


# %% [markdown] locked="overlap-task"
# `size` is the length of a chunk; the last one may be shorter, and a small array has fewer chunks. Everything that your function needs
# it makes itself, at every call: the grader records what it asks of CUDA, and replays that with numbers of its own. So
# leave the arithmetic to the kernel.

# %% answer="overlap-answer"
def overlap(h_x, h_y, d_x, d_y):
    n = h_x.size
    size = -(-n // CHUNKS)
    ### BEGIN SOLUTION
    streams = [cuda.stream() for _ in range(3)]
    for c, first in enumerate(range(0, n, size)):
        part = slice(first, min(first + size, n))
        stream = streams[c % len(streams)]
        d_x[part].copy_to_device(h_x[part], stream=stream)
        brighten[BLOCKS, THREADS, stream](d_x[part], d_y[part])
        d_y[part].copy_to_host(h_y[part], stream=stream)
    for stream in streams:
        stream.synchronize()
    ### END SOLUTION


# %% [markdown] locked="overlap-try"
# Try it: `1, 2, 3, ...` should give `3, 6, 11, ...`. Then the timeline of a longer array.

# %% locked="overlap-look"
n = 1 << 19
h_x, h_y = cuda.pinned_array(n, np.float32), cuda.pinned_array(n, np.float32)
h_x[:] = np.arange(1, n + 1)
d_x, d_y = cuda.device_array(n, np.float32), cuda.device_array(n, np.float32)
overlap(h_x, h_y, d_x, d_y)
print(h_y[:3])

with lab.timeline() as shown:
    overlap(h_x, h_y, d_x, d_y)
shown.draw("What overlaps?")

# %% [markdown] locked="overlap-check-text"
# The grader's table for your function. Run it as often as you like: it costs nothing and counts for nothing.

# %% locked="overlap-check"
check("06_overlap", overlap)

# %% [markdown] locked="overlap-hints"
# <details><summary>First hint</summary>
#
# One stream keeps its order: copy in, kernel, copy out. What may a second stream do in the meantime, if it has another part
# of the array?
#
# </details>
# <details><summary>Second hint</summary>
#
# Give the chunks to three or four streams in turn. In its stream a chunk is copied in, computed and copied out; every call names
# the stream. Wait for all streams at the end.
#
# </details>
# <details><summary>Third hint</summary>
#
# `part = slice(first, min(first + size, n))`, then `d_x[part].copy_to_device(h_x[part], stream=s)`,
# `brighten[BLOCKS, THREADS, s](d_x[part], d_y[part])` and `d_y[part].copy_to_host(h_y[part], stream=s)`.
#
# </details>

# %% [markdown] locked="overlap-graded"
# The next cell is for your marks; leave it as it is. The grader runs it on its own machine, with inputs and sizes of its own.

# %% test="06_overlap" points=10
check("06_overlap", overlap, graded=True)
