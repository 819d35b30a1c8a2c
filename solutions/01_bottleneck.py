# ---
# exercise: 01_bottleneck
# ---

# %% [markdown] locked="bottleneck-statement"
# # Name the bottleneck · 10 points
#
# A profiler has looked at `n` kernels. For each you have `us`, the microseconds that it took, `nbytes`, the bytes that went to and from
# device memory, and `flop`, its floating-point operations. `card` holds four figures of the GPU: the GB/s that its memory
# reaches, its GFLOP/s, the nanoseconds that a load takes, and its number of SMs.
#
# Write a kernel that judges kernels, one a thread:
#
# * `kind[i]`: **1** if memory limits it, **2** if arithmetic does, **3** if it is latency: neither is at 60 % of its peak. If both are, the one
#   that is closer to its peak.
# * `loads[i]`: how many loads of 128 bytes it has under way on each SM, by Little's law, if `nbytes` were all loads.
#
# | what | points |
# |---|---|
# | every value is right, at every size and for every card | 8 |
# | no hazards: no stray access, no race, nothing read before it is written | 2 |

# %% locked="bottleneck-setup"
# %load_ext grader
import numpy as np
from numba import cuda, float32

from grader.kit import lab
from grader.kit.limits import peaks, why

# %% [markdown] locked="bottleneck-task"
# 1 GB/s is one byte a nanosecond.

# %% answer="bottleneck-answer"
@cuda.jit
def bottleneck(us, nbytes, flop, card, kind, loads):
    i = cuda.grid(1)
    if i < us.size:
        ### BEGIN SOLUTION
        gbs = nbytes[i] / us[i] / float32(1000)
        gflops = flop[i] / us[i] / float32(1000)
        memory, compute = gbs / card[0], gflops / card[1]
        if memory < float32(0.6) and compute < float32(0.6):
            kind[i] = 3
        elif memory >= compute:
            kind[i] = 1
        else:
            kind[i] = 2
        loads[i] = gbs * card[2] / float32(128) / card[3]
        ### END SOLUTION


# %% [markdown] locked="bottleneck-try"
# Try it on five kernels: first predict, then see what your kernel says of them. The figures come from the virtual GPU's
# profiler; on a real GPU take Nsight Compute's.

# %% locked="bottleneck-look"
@cuda.jit
def copy(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i]


def chains(terms):                       # four chains of dependent operations a thread, as in the lesson
    @cuda.jit
    def kernel(x, y):
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            v = x[i]
            a = b = c = d = float32(0)
            for _ in range(terms):
                a = a * v + float32(0.5)
                b = b * v + float32(0.25)
                c = c * v + float32(0.125)
                d = d * v + float32(0.75)
            y[i] = a + b + c + d

    return kernel


short, long = chains(1), chains(32)
sms, n = cuda.get_current_device().MULTIPROCESSOR_COUNT, 1 << 23
m = sms * 2048
x, y = cuda.to_device(np.ones(n, np.float32)), cuda.device_array(n, np.float32)
five = {
    "copy, 64 warps an SM": why(lambda: copy[sms * 8, 256](x, y)),
    "copy, 2 warps an SM": why(lambda: copy[sms, 64](x[: n // 16], y[: n // 16])),
    "short chains, 64 warps an SM": why(lambda: short[sms * 8, 256](x, y)),
    "long chains, 64 warps an SM": why(lambda: long[sms * 8, 256](x[: 8 * m], y[: 8 * m])),
    "long chains, 2 warps an SM": why(lambda: long[sms, 64](x[: m // 16], y[: m // 16])),
}
if not all(w.bound_by for w in five.values()):
    print("No profile here: on a real GPU, ncu has these figures.")
else:
    figures = [
        (w.microseconds, 1e3 * w.gbs * w.microseconds, 1e3 * w.gflops * w.microseconds)
        for w in five.values()
    ]
    us, nbytes, flop = (cuda.to_device(np.array(column, np.float32)) for column in zip(*figures))
    gflops, gbs = peaks()
    card = cuda.to_device(np.array([gbs, gflops, 400, sms], np.float32))
    kind, loads = (cuda.to_device(np.zeros(5, np.float32)) for _ in range(2))
    bottleneck[1, 64](us, nbytes, flop, card, kind, loads)
    words = {1: "memory", 2: "arithmetic", 3: "latency"}
    for name, k, under_way in zip(five, kind.copy_to_host(), loads.copy_to_host()):
        print(f"{name:28} {words.get(int(k), '?'):10} {under_way:5.1f} loads under way on an SM")

# %% [markdown] locked="bottleneck-check-text"
# The grader's table for your kernel. Run it as often as you like: it costs nothing and counts for nothing.

# %% locked="bottleneck-check"
check("01_bottleneck", bottleneck)

# %% [markdown] locked="bottleneck-hints"
# <details><summary>First hint</summary>
#
# A rate alone says nothing: 500 GB/s is a lot for one card and little for another. What do you divide it by?
#
# </details>
# <details><summary>Second hint</summary>
#
# `memory = nbytes / time / peak`, and the same for arithmetic. The larger of the two names the bottleneck, unless it is below 0.6.
# Loads under way: bytes a nanosecond, times the nanoseconds of a load.
#
# </details>
# <details><summary>Third hint</summary>
#
# `gbs = nbytes[i] / us[i] / float32(1000)`. `kind` is 3 if `gbs / card[0]` and `gflops / card[1]` are both below 0.6, else 1 or 2.
# `loads[i] = gbs * card[2] / float32(128) / card[3]`.
#
# </details>

# %% [markdown] locked="bottleneck-graded"
# The next cell is for your marks; leave it as it is. The grader runs it on its own machine, with inputs and sizes of its own.

# %% test="01_bottleneck" points=10
check("01_bottleneck", bottleneck, graded=True)
