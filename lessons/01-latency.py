# %% [markdown]
# # 01 · Latency
#
# **You will** measure how long one load takes, work out how many must be under way to keep the memory busy, get them in two
# different ways, read a stall breakdown, and place a kernel on the roofline.
#
# **You need** lesson 00: threads, warps and blocks.
#
# A number from the GPU's memory arrives some five hundred cycles after it was asked for
# (466 on an A100, 479 on an H100: [Luo et al.](https://arxiv.org/abs/2402.13499)). No trick makes it come sooner. A GPU
# is fast all the same, because it does not wait for one load at a time: it has thousands under way. So the question to
# ask of a slow kernel is seldom "what takes so long?", and nearly always "**why is so little going on at the same time?**"

# %%
# %load_ext grader
import numpy as np
from numba import cuda, float32

from grader.kit import lab
from grader.kit.limits import draw_roofline, draw_stalls, why

sms = cuda.get_current_device().MULTIPROCESSOR_COUNT
print(sms, "SMs")

# %% [markdown]
# ## One load
#
# To see the latency itself, let one thread load an index, and use that index for the next load. It cannot begin the next
# one before it has the last: a **dependent chain**. (So that no cache has the answer, the steps are large and random, the array
# is larger than the L2 cache of most cards, and each run goes on where the last one stopped.)

# %%
@cuda.jit
def chase(following, out, steps):
    p = out[0]
    for _ in range(steps):
        p = following[p]
    out[0] = p


line, lines = 32, 1 << 20                       # 32 elements, 128 bytes: each step is to another line
places = np.random.default_rng(1).permutation(lines) * line
following = np.zeros(lines * line, np.int32)    # 128 MB
following[places] = np.roll(places, -1)
following, out = cuda.to_device(following), cuda.to_device(np.zeros(1, np.int32))

steps = 1000
latency = 1e3 * lab.microseconds(lambda: chase[1, 1](following, out, steps)) / steps
cycles = latency * cuda.get_current_device().CLOCK_RATE / 1e6           # CLOCK_RATE is in kHz
print(f"{latency:.0f} ns a load, {lab.how()}: {cycles:.0f} cycles, or {4 / latency:.3f} GB/s")

# %% [markdown]
# A USB stick does better, and the card could do a hundred thousand times as much. Nothing is wrong with the memory: it is idle
# nearly all the time.
#
# ## Little's law
#
# John Little's law holds for anything that flows: a supermarket, a motorway, a memory.
#
# > what is under way = what arrives per second x how long each takes
#
# **Predict.** Your card's memory can bring some 1700 GB/s (an A100; a T4: 250). A warp's load is 128 bytes. With the latency from
# above, how many loads must each SM have under way? Write the number down.

# %%
@cuda.jit
def copy(x, y):
    i = cuda.grid(1)
    step = cuda.gridsize(1)
    while i < x.size:
        y[i] = x[i]
        i += step


n = sms * 1024 * 32
x, y = cuda.to_device(np.ones(n, np.float32)), cuda.device_array(n, np.float32)
us = lab.microseconds(lambda: copy[sms * 8, 256](x, y))
best = 4 * n / us / 1e3
print(f"{best:.0f} GB/s are read with the whole GPU at work, {lab.how()}")
loads = best * latency / 128 / sms
print(f"under way: {best * latency / 1e3:.0f} KB, or {loads:.0f} loads of a warp on every SM")

# %% [markdown]
# (A kernel as short as this one gets less than the memory could give: starting and ending count, and its stores use the same
# memory. Nobody waits for a store, so they do not count here.)
#
# A warp of this kernel has one load under way, and waits. So about so many **warps** must be on every SM, all of them waiting.
# Waiting warps cost nothing: their registers stay where they are, and the SM's four schedulers each pick, in every cycle, any
# warp that is ready. This is how a GPU hides latency, and why it wants far more threads than it has lanes.
#
# ## Two ways to have more under way
#
# More warps is one way. The other is more loads *per thread*, before the first of them is used: **instruction-level
# parallelism**, ILP. A thread does not stop at a load. It stops at the first instruction that *needs* what was loaded.

# %%
@cuda.jit
def copy_2(x, y):
    i = cuda.grid(1)
    step = cuda.gridsize(1)
    while i < x.size:               # no bounds in between: x.size is a multiple of all the steps here
        a, b = x[i], x[i + step]                        # two loads under way
        y[i], y[i + step] = a, b
        i += 2 * step


@cuda.jit
def copy_4(x, y):
    i = cuda.grid(1)
    step = cuda.gridsize(1)
    while i < x.size:
        a, b, c, d = x[i], x[i + step], x[i + 2 * step], x[i + 3 * step]
        y[i], y[i + step], y[i + 2 * step], y[i + 3 * step] = a, b, c, d
        i += 4 * step


# %% [markdown]
# **Predict.** With 4 warps on every SM, how many times faster is `copy_4` than `copy`? And with 32 warps?

# %%
warps = [1, 2, 4, 8, 16, 32]
rates = {}
for kernel in (copy, copy_2, copy_4):
    times = [lab.microseconds(lambda: kernel[sms, 32 * w](x, y)) for w in warps]
    rates[kernel.__name__] = [4 * n / us / 1e3 for us in times]

lab.curves(warps, rates, "warps on every SM", f"GB/s read, {lab.how()}",
           "Loads under way: warps times loads a thread")
for w, one, four in zip(warps, rates["copy"], rates["copy_4"]):
    print(f"{w:2} warps: {one:5.0f} and {four:5.0f} GB/s, {four / one:.1f} times")

# %% [markdown]
# On the left, twice the warps is twice the speed, and so is twice the loads a thread: only the product counts. On the right all
# curves bend and meet: the memory has as much to do as it can, and more requests only stand in a longer queue.
#
# Why does the compiler not do this by itself? It may not. In `copy`, the store to `y[i]` comes before the next load of `x`, and
# for all that the compiler knows `x` and `y` overlap. So the order that you write is the order that you get. (In a sum, where
# nothing is stored in between, it does unroll the loop and move the loads up.)
#
# ## Occupancy
#
# **Occupancy** is the number of warps on an SM, divided by the most that it can hold. A block stays on its SM until it ends,
# and takes its share of four things: places for warps, places for blocks, registers, shared memory. The scarcest decides how
# many blocks fit.
#
# Shared memory that is asked for and never used is a handy brake:

# %%
def brake(kernel, kilobytes, *args):
    return why(lambda: kernel[n // 512, 128, 0, kilobytes * 1024](*args))


for kilobytes in (0, 10, 20, 40, 48):
    w = brake(copy, kilobytes, x, y)
    print(f"{kilobytes:2} KB a block: {w.blocks:2} blocks on an SM, {w.occupancy:4.0%} occupancy, "
          f"limited by {' and '.join(w.limited_by)}")

# %% [markdown]
# This is **theoretical** occupancy: what fits. **Achieved** occupancy is lower when blocks end at different times, or when there
# are not enough of them.
#
# ### When occupancy does not help
#
# Occupancy is one way to have work under way, and not a goal. **Predict.** Three kernels at high, middling and low occupancy: which
# of them care?

# %%
@cuda.jit
def polynomial(x, y, terms):
    i = cuda.grid(1)
    step = cuda.gridsize(1)
    while i < x.size:
        v = x[i]
        s = float32(0)
        for _ in range(terms):                          # every step needs the one before
            s = s * v + float32(0.5)
        y[i] = s
        i += step


def polynomials(terms):
    """A kernel for four polynomials with so many terms each: four independent chains."""

    @cuda.jit
    def kernel(x, y):
        i = cuda.grid(1)
        step = cuda.gridsize(1)
        while i < x.size:
            v = x[i]
            a = b = c = d = float32(0)
            for _ in range(terms):
                a = a * v + float32(0.5)
                b = b * v + float32(0.25)
                c = c * v + float32(0.125)
                d = d * v + float32(0.75)
            y[i] = a + b + c + d
            i += step

    return kernel


four_chains = polynomials(16)
m = n // 4
for name, kernel, size in (("copy", copy, n), ("copy_4", copy_4, n), ("four chains", four_chains, m)):
    row = [brake(kernel, kilobytes, x[:size], y[:size]) for kilobytes in (0, 20, 40)]
    times = "  ".join(f"{w.occupancy:4.0%}: {w.microseconds:5.1f} us" for w in row)
    print(f"{name:12} {times}, {lab.how()}")

# %% [markdown]
# `copy` loses what its warps had under way. The two with ILP of their own lose far less. This is the rule to keep: **raise
# occupancy while latency is exposed, and stop when it is not.** Kernels tuned to the utmost often run at low occupancy, because
# the registers that many warps would take are put to better use (Vasily Volkov,
# [Better Performance at Lower Occupancy](https://www.nvidia.com/content/GTC-2010/pdfs/2238_GTC2010.pdf), GTC 2010).
#
# ## What do the warps wait for?
#
# In every cycle, each warp is in one **state**: it issues an instruction ("selected"), or something keeps it from doing so. Nsight
# Compute samples these states. Five kernels, each with reasons of its own:

# %%
@cuda.jit
def block_sums(x, y):
    part = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    part[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    half = 128
    while half > 0:                                     # half of the threads add, then half of those
        if t < half:
            part[t] += part[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        y[cuda.blockIdx.x] = part[0]


kernels = {
    "copy, 2 warps an SM": why(lambda: copy[sms, 64](x, y)),
    "copy, many warps": why(lambda: copy[sms * 8, 256](x, y)),
    "four chains, many warps": why(lambda: four_chains[sms * 8, 256](x[:m], y[:m])),
    "one chain, 4 warps": why(lambda: polynomial[sms, 128](x[: sms * 128], y[: sms * 128], 1024)),
    "block sums": why(lambda: block_sums[n // 256, 256](x, y)),
}
draw_stalls(kernels)

# %%
for name, w in kernels.items():
    print(f"{name:24} {w}")

# %% [markdown]
# | state | the warp | what may help |
# |---|---|---|
# | long scoreboard | needs a result from global or local memory | more loads under way; fewer loads |
# | short scoreboard | needs a result from shared memory or a special function | the same, one level down |
# | wait | needs the result of the last few cycles' arithmetic | independent chains (ILP) |
# | barrier | stands at `syncthreads` | fewer barriers; smaller blocks, more of them |
# | math pipe throttle | could go on, but its arithmetic unit is taken | fewer or cheaper instructions |
# | lg throttle, mio throttle | could go on, but the queue to memory is full | fewer, wider accesses |
# | not selected | could go on, but another warp was chosen | nothing: there are warps enough |
#
# Mind the first two bars: long scoreboard is the largest part of *both*. In one nobody else uses the memory, in the
# other it is full. A stall breakdown says what the warps wait for. It does not say whether that is busy. For that, look at the units.
#
# ## The units are independent
#
# Schedulers, arithmetic pipes, shared memory, L2 and device memory work side by side, each at its own rate. With enough under way, a
# kernel takes as long as its **busiest** unit, and all others have time left over. When *no* unit is busy, the kernel is
# latency-bound.

# %%
for name, w in kernels.items():
    busy = sorted(w.use.items(), key=lambda item: -item[1])[:3]
    print(f"{name:24}", ", ".join(f"{unit} {part:.0%}" for unit, part in busy) or "not known here")

# %% [markdown]
# So there are three kinds of kernel, and it is worth knowing which you have before you change a line:
#
# * **memory-bound**: DRAM or L2 is busy. Move fewer bytes (lesson 02).
# * **compute-bound**: a pipe or the issue of instructions is busy. Fewer or cheaper instructions.
# * **latency-bound**: nothing is busy. More under way: warps, ILP, or fewer barriers.
#
# ## The roofline
#
# Two of the bounds fit in one picture. Across: how many operations the kernel makes for a byte from memory, its **arithmetic
# intensity**. Upwards: how many it makes per second. Memory bandwidth is a slanted roof, the arithmetic units are a flat one.
#
# **Predict.** Polynomials with 4, 16 and 64 terms: which of them lie under which roof? And where is a kernel that is latency-bound?

# %%
points = {}
for terms in (1, 4, 16):
    kernel = polynomials(terms)
    points[f"{4 * terms} terms"] = why(lambda: kernel[sms * 8, 256](x[:m], y[:m]))
kernel = polynomials(1)
points["4 terms, 2 warps an SM"] = why(lambda: kernel[sms, 64](x[:m], y[:m]))
points["one chain, 4 warps an SM"] = kernels["one chain, 4 warps"]
draw_roofline(points)
for name, w in points.items():
    print(f"{name:24} {w.intensity:6.1f} FLOP/B, {w.gflops:6.0f} GFLOP/s")

# %% [markdown]
# Left of the corner, more arithmetic is nearly free: it is done while the bytes arrive. Right of it, the bytes are free. The
# kernels that are far below both roofs are the latency-bound ones, and *no* roof tells you what they need.
#
# A small kernel never gets close to a roof, whatever it does: starting, filling and emptying the GPU takes a few microseconds
# of its own.
#
# ## The same in CUDA C++
#
# | here | CUDA C++ |
# |---|---|
# | `a, b = x[i], x[i + step]` before the stores | the same; or `const float* __restrict__ x`, which tells the compiler that nothing overlaps |
# | the loop, written out four times | `#pragma unroll 4`, which needs the same promise to help |
# | `kernel[blocks, threads, 0, nbytes]` | `kernel<<<blocks, threads, nbytes>>>` |
# | `@cuda.jit(launch_bounds=256)` | `__launch_bounds__(256)` |
# | blocks that fit on an SM | `cudaOccupancyMaxActiveBlocksPerMultiprocessor` |
#
# ## What Nsight Compute would show
#
# `ncu --set full python script.py`:
#
# * *GPU Speed Of Light*: how busy memory and SM are, in per cent. Both under 60: latency-bound, and the page says so.
# * *Warp State Statistics*: the stalls of this lesson under the same names, in cycles between two instructions.
# * *Occupancy*: theoretical and achieved, and which resource is the limit.
# * *Source*: the same stalls line by line. The line that is marked with long scoreboard is the one that *uses* the loaded
#   value, not the one that loads it.
#
# ## To take away
#
# * Under way = throughput x latency. Count what your kernel has under way.
# * Warps or ILP: only the product counts. Where warps are few, ILP is the way out.
# * Occupancy is a means. Once latency is hidden, more gains nothing.
# * Find the busiest unit first. If there is none, it is latency.
#
# ## Exercises
#
# In `exercises/01-latency`:
#
# 1. **`bottleneck`**: five figures of a profile, and what limits the kernel. Write the rule down as a kernel.
# 2. **`ilp`**: a map with two warps on an SM. Make it several times as fast, without one warp more.
