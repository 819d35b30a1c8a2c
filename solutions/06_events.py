# ---
# exercise: 06_events
# ---

# %% [markdown] locked="events-statement"
# # Fork and join by events · 10 points
#
# Four kernels make one round:
#
# ```
#            ┌── smooth: t → u ──┐
# mix: x → t ┤                   ├ join: u, v → x
#            └── bend:   t → v ──┘
# ```
#
# `smooth` and `bend` need nothing of each other, and each leaves most of the card idle. Let them run **at the same time**, in two
# streams. The next round's `mix` needs the `x` that `join` made.
#
# The host could keep order by waiting for the device between the kernels. It would be right, and the host could do nothing
# else meanwhile. Let the streams wait for each other instead, by **events**.
#
# | what | points |
# |---|---|
# | every value is right | 2 |
# | no hazards: what one stream needs of the other, it waits for | 1 |
# | at least 1.4 times as fast as in one stream | 4 |
# | two streams have work | 1 |
# | the host waits at most twice in all | 2 |

# %% locked="events-setup"
# %load_ext grader
import math

import numpy as np
from numba import cuda, float32

from grader.kit import lab

WIDE, NARROW = (64, 256), (8, 128)       # blocks, threads


@cuda.jit
def mix(x, t):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        t[i] = float32(0.5) * x[i]


@cuda.jit
def smooth(t, u):
    for i in range(cuda.grid(1), t.size, cuda.gridsize(1)):
        u[i] = float32(0.5) * (t[max(i - 1, 0)] + t[min(i + 1, t.size - 1)])


@cuda.jit
def bend(t, v):
    for i in range(cuda.grid(1), t.size, cuda.gridsize(1)):
        v[i] = math.sqrt(t[i] * t[i] + float32(1))


@cuda.jit
def join(u, v, x):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        x[i] = u[i] + v[i]


# %% [markdown] locked="events-task"
# All arrays are on the device. Launch `mix` and `join` with `WIDE`, `smooth` and `bend` with `NARROW`, as in
# `mix[*WIDE, a](x, t)`; leave the sizes as they are. The streams and events are there already.

# %% answer="events-answer"
def fork_join(x, t, u, v, rounds):
    a, b = cuda.stream(), cuda.stream()
    forked, joined = cuda.event(), cuda.event()
    for _ in range(rounds):
        ### BEGIN SOLUTION
        mix[*WIDE, a](x, t)
        forked.record(a)
        smooth[*NARROW, a](t, u)
        forked.wait(b)
        bend[*NARROW, b](t, v)
        joined.record(b)
        joined.wait(a)
        join[*WIDE, a](u, v, x)
        ### END SOLUTION
    a.synchronize()
    b.synchronize()


# %% [markdown] locked="events-try"
# Try it: from zeros, `x` becomes 1, then `0.5 + sqrt(1.25)`, about 1.618. Then the timeline of two rounds, a row for each stream.

# %% locked="events-look"
def arrays(n):
    return [cuda.to_device(np.zeros(n, np.float32)) for _ in range(4)]


x, t, u, v = arrays(1000)
fork_join(x, t, u, v, 2)
print(x.copy_to_host()[[0, 500, 999]])

x, t, u, v = arrays(1 << 16)
with lab.timeline() as shown:
    fork_join(x, t, u, v, 2)
shown.draw("Two rounds", rows="stream")

# %% [markdown] locked="events-check-text"
# The grader's table for your function. Run it as often as you like: it costs nothing and counts for nothing.

# %% locked="events-check"
check("06_events", fork_join)

# %% [markdown] locked="events-hints"
# <details><summary>First hint</summary>
#
# Which of the four kernels has to wait for which? Draw the arrows of two rounds, and give each kernel a stream so that few
# arrows go from one stream to the other.
#
# </details>
# <details><summary>Second hint</summary>
#
# `mix`, `smooth` and `join` stay in stream `a`; only `bend` goes to stream `b`. Two arrows cross: from `mix` to `bend`, and from
# `bend` to `join`. An event is recorded in the stream where the arrow starts, after the kernel.
#
# </details>
# <details><summary>Third hint</summary>
#
# `mix` in `a`; `forked.record(a)`; `forked.wait(b)`; `bend` in `b`; `joined.record(b)`; `smooth` in `a`; `joined.wait(a)`; `join` in
# `a`.
#
# </details>

# %% [markdown] locked="events-graded"
# The next cell is for your marks; leave it as it is. The grader runs it on its own machine, with inputs and sizes of its own.

# %% test="06_events" points=10
check("06_events", fork_join, graded=True)
