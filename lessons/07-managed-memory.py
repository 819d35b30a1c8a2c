# %% [markdown]
# # 07 · Managed memory
#
# **You will** use one array on both sides without a copy in your program, see the copies that happen all the same, take them out of the
# way, and say when managed memory wins and when it loses.
#
# **You need** lessons 00 and 06 (streams).
#
# So far every array had two lives, one at the host and one on the GPU, and you copied between them. **Managed memory** is one array
# with one address. Host and kernels both use it, and the system moves it to whoever touches it. That is a great comfort, and
# moving is not free: who pays, when, and how much?

# %%
# %load_ext grader
import numpy as np
from numba import cuda

from grader.kit import advise, lab, prefetch

# %% [markdown]
# ## One array
#
# The host fills it, a kernel works on it, the host reads it. The only thing left to do is to wait.

# %%
@cuda.jit
def add_one(x, first, stop):        # elements first to stop: numba takes no slice of a managed array
    i = first + cuda.grid(1)
    if i < stop:
        x[i] += 1


def run(x, first=0, stop=None, stream=0):
    stop = x.size if stop is None else stop
    add_one[-(-(stop - first) // 256), 256, stream](x, first, stop)


n = 1 << 21                                 # 8 MB
x = cuda.managed_array(n, np.float32)
x[:] = 1
run(x)
cuda.synchronize()
print(x[:4])

# %% [markdown]
# Without `synchronize` the host would read too early, as with pinned memory in lesson 06.
#
# **Predict.** The host fills the array once more. Then the same kernel runs twice. How long does the second run take, if the
# first takes two milliseconds?

# %%
x[:] = 1
with lab.timeline() as first:
    run(x)
with lab.timeline() as second:
    run(x)

for name, t in (("first", first), ("second", second)):
    print(f"{name:6} {t.microseconds:7.1f} us, {lab.how()}; fault groups: {t.fault_groups:.0f}, "
          f"moved to the device: {t.bytes_to_device / 2**20:.0f} MB")
first.draw("The first run of the kernel")

# %% [markdown]
# The memory was at the host. A thread of the kernel touched a page that the GPU did not have: a **page fault**. The
# thread stopped, the GPU asked the driver, the driver moved the page and told the GPU to go on. The whole picture is one kernel, and nearly all
# of its time is waiting for pages: each box of the lower row is one group of faults that were served together. In the second run
# everything is there. (A real GPU does not count for us: there the counts are `nan`, and Nsight Systems has them.)
#
# ## What one fault brings
#
# The driver does not move single bytes. It moves **leaves** of 64 KB, and it guesses: if more than half of a neighbourhood is there,
# the rest probably will be wanted too. Neighbourhoods are pairs of leaves, fours, eights, up to a **tree** of 2 MB
# ([Ganguly et al., ISCA 2019](https://doi.org/10.1145/3307650.3322224);
# [the driver's source](https://github.com/NVIDIA/open-gpu-kernel-modules/blob/main/kernel-open/nvidia-uvm/uvm_perf_prefetch.c)).
# What one fault brings is a *fault group*. In the picture above a group takes some hundred microseconds, nearly all of it
# for the asking and not for the bytes.
#
# **Predict.** A kernel touches the first 1, 2, 3, ... 32 leaves of a tree, in order. Draw the curve of the groups.

# %%
leaf = (64 << 10) // 4                      # float32 in a leaf
tree = 32 * leaf
counts = [1, 2, 4, 8, 16, 32]
groups, moved = [], []
for k in counts:
    x[:tree] = 1                            # the host takes the tree back
    with lab.timeline() as t:
        run(x, 0, k * leaf)
    groups.append(t.fault_groups)
    moved.append(t.bytes_to_device / 2**10)

for k, g, m in zip(counts, groups, moved):
    print(f"{k:2} leaves touched: {g:.0f} groups, {m:4.0f} KB moved")
lab.curves(counts, {"fault groups": groups}, "leaves touched, in order", "groups",
           "Twice the memory, one more fault")

# %% [markdown]
# Leaf 0 comes alone, and so does leaf 1. With leaf 2, three quarters of the first four are there, so the fourth comes with it. From then on
# each fault doubles what is there. In order is the best case; a kernel that touches here and there gets far less for a fault.
#
# (The virtual GPU follows the published rules. A GPU's threads fault side by side and in no order, so its counts differ in
# detail: Nsight Systems shows them.)
#
# ## Ask in time: prefetch
#
# You know what the kernel will touch. Say so: `prefetch` moves it in stream order, as one large copy, with no fault at all.
#
# **Predict.** The kernel alone: how many times faster? And filling, moving and computing together?

# %%
def on_demand():
    run(x)


def prefetched():
    prefetch(x)
    run(x)


pinned, device = cuda.pinned_array(n, np.float32), cuda.device_array(n, np.float32)
pageable = np.ones(n, np.float32)


def copied(host):
    device.copy_to_device(host)
    run(device)


times = {}
for name, work in (("on demand", on_demand), ("prefetched", prefetched),
                   ("copied, pinned", lambda: copied(pinned)),
                   ("copied, pageable", lambda: copied(pageable))):
    x[:] = 1
    with lab.timeline() as t:
        work()
    times[name] = t.microseconds
    if name in ("on demand", "prefetched"):
        t.draw(name)
lab.bars(times, f"microseconds to move and compute, {lab.how()}",
         "Data that is at the host, and needed once")
gain = times["on demand"] / times["prefetched"]
print(f"prefetching is {gain:.1f} times as fast as faulting, {lab.how()}")

# %% [markdown]
# The kernel itself is back at the speed of its second run. But the bytes still have to travel: prefetched managed memory is as
# good as an explicit copy from pinned memory, and no better. What managed memory saves you is the *second array*, not the way.
#
# A prefetch is work in a stream like any other, so it overlaps. Chunk by chunk, as in lesson 06:

# %%
streams = [cuda.stream() for _ in range(2)]
chunks = 4
x[:] = 1
with lab.timeline() as chunked:
    for c in range(chunks):
        part = slice(c * n // chunks, (c + 1) * n // chunks)
        stream = streams[c % 2]
        prefetch(x[part], stream=stream)
        run(x, part.start, part.stop, stream)
        prefetch(x[part], "host", stream=stream)
chunked.draw("To the device, compute, back to the host: two streams")
print("right:", bool((x == 2).all()), f"- fault groups: {chunked.fault_groups:.0f}")

# %% [markdown]
# ## Thrashing
#
# A fault moves memory *away* from the other side. If both sides keep touching the same leaf, it travels back and forth.
#
# Here a solver makes twelve steps, and after each the host looks at one element to see whether it is done.
#
# **Predict.** One element is four bytes. What does looking at it cost?

# %%
@cuda.jit
def tell(x, status):
    status[0] = x[0]


def steps(x, look):
    for _ in range(12):
        run(x)
        tell[1, 1](x, status)
        cuda.synchronize()
        look()


status = cuda.mapped_array(1, np.float32)    # pinned: a kernel writes to it at the host; nothing moves
steps(x, look=lambda: None)                  # compiled before we look

with lab.timeline() as thrashing:
    steps(x, look=lambda: x[0])
prefetch(x)
with lab.timeline() as apart:
    steps(x, look=lambda: status[0])

thrashing.draw("The host looks at x[0] after every step")
for name, t in (("looks at x[0]", thrashing), ("looks at status[0]", apart)):
    print(f"{name:18} {t.microseconds:6.0f} us, {lab.how()}; fault groups: kernel {t.fault_groups:.0f}, "
          f"host {t.host_fault_groups:.0f}; moved back {t.bytes_to_host / 2**10:.0f} KB")

# %% [markdown]
# Each look costs two faults: the host takes the leaf, and the kernel has to fetch it again. Nobody would write `copy_to_host` of
# 64 KB into that loop; `x[0]` does not look like one. The way out is to keep what both sides want *apart* from what only the
# kernel wants: here a small array of its own, to which the kernel writes the one value.
#
# ## Advice
#
# `advise` tells the driver what will happen, once, and moves nothing itself.
#
# * **read mostly**: everybody who reads gets a copy of his own. A write makes the other copies worthless.
# * **preferred location**: where the data should stay. Once it is there, others that fault reach it there, if they can, instead
#   of fetching it.
# * **accessed by**: this processor will reach it, so keep its page tables up to date wherever the data is; no faults, and nothing
#   moves.
#
# ([Manual](https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html), `cudaMemAdvise`.)
#
# A table of factors is read by the kernel *and* by the host, in every step. Nobody writes to it.

# %%
@cuda.jit
def scale(table, x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= table[i]


def table_steps(table, x):
    total = 0.0
    for _ in range(6):
        scale[-(-x.size // 256), 256](table, x)
        cuda.synchronize()
        total += float(table[: 4 * leaf].sum())      # the host needs a part of it too
    return total


m = tree
table, y = cuda.managed_array(m, np.float32), cuda.to_device(np.ones(m, np.float32))
results = {}
for advice in (None, "read mostly"):
    table[:] = 1
    if advice:
        advise(table, advice)
    with lab.timeline() as t:
        table_steps(table, y)
    results[advice or "no advice"] = t
    t.draw(f"A table that both sides read: {advice or 'no advice'}")

lab.bars({name: t.microseconds for name, t in results.items()},
         f"microseconds for six steps, {lab.how()}", "Read mostly: everybody keeps a copy")
for name, t in results.items():
    print(f"{name:12} fault groups: kernel {t.fault_groups:.0f}, host {t.host_fault_groups:.0f}")

# %% [markdown]
# The first step of both pictures is the same: the table has to get to the device. After that, nothing moves.
#
# ## When managed memory wins: sparse access
#
# A kernel looks up a few elements of a large array. Which ones, nobody knows beforehand. Copying all of it is the honest way
# with explicit copies.
#
# **Predict.** 64 MB, and eight elements of it are needed. Explicit copy against page faults?

# %%
@cuda.jit
def pick(x, where, out):
    i = cuda.grid(1)
    if i < where.size:
        out[i] = x[where[i]]


big = 1 << 24                                # 64 MB
host = np.arange(big, dtype=np.float32)
large = cuda.managed_array(big, np.float32)
large[:] = host
where = cuda.to_device(np.arange(8, dtype=np.int64) * (big // 8) + 12345)
out, everything = cuda.device_array(8, np.float32), cuda.to_device(host)

pick[1, 32](everything, where, out)          # compiled before we look
times = {}
with lab.timeline() as t:
    everything.copy_to_device(host)
    pick[1, 32](everything, where, out)
times["copy everything (pageable)"] = t.microseconds
with lab.timeline() as t:
    pick[1, 32](large, where, out)
times["fault for eight leaves"] = t.microseconds
print(f"moved: {t.bytes_to_device / 2**10:.0f} of {4 * big / 2**10:.0f} KB")
prefetch(large, "host")
advise(large, "accessed by")
with lab.timeline() as t:
    pick[1, 32](large, where, out)
times["reach it at the host"] = t.microseconds
print(f"moved with 'accessed by': {t.bytes_to_device / 2**10:.0f} KB")
print("right:", np.array_equal(out.copy_to_host(), host[where.copy_to_host()]))
lab.bars(times, f"microseconds, {lab.how()}", "Eight elements of 64 MB")

# %% [markdown]
# Here managed memory is far ahead, and the last bar moves no page at all: each access goes over the link by itself, as with zero-copy memory. That is the right
# choice for what is touched once, here and there, and a bad one for what is touched again and again.
#
# ### And when it loses
#
# You have seen it above: dense data that is needed once costs faults *and* the way. Whoever knows the extent of his data
# should say so, by a copy or by a prefetch.
#
# ## More than fits
#
# An ordinary allocation that is too large fails. Managed memory may be larger than the GPU's: what was fetched longest ago goes back to the
# host. `lab.room(k)` leaves only so much free on the device. The kernel sweeps over 8 MB, again and again.
#
# **Predict.** With room for 6 MB of the 8, how much of the data moves in each later sweep? A quarter?

# %%
advise(large, "accessed by", unset=True)
prefetch(large, "host")
rooms = [4, 6, 8, 16]                        # MB
again, micro = [], []
for mb in rooms:
    x[:] = 1
    with lab.room(mb << 20):
        run(x)                               # the first sweep has to fetch everything
        with lab.timeline() as t:
            run(x)
    again.append(t.bytes_to_device / 2**20)
    micro.append(t.microseconds)

for mb, moved, us in zip(rooms, again, micro):
    print(f"room for {mb:2} MB: the second sweep moves {moved:.0f} MB, {us:6.0f} us {lab.how()}")
lab.bars({f"{mb} MB free": us for mb, us in zip(rooms, micro)},
         f"microseconds for a later sweep, {lab.how()}", "8 MB of data: it fits, or it does not")

# %% [markdown]
# Not a quarter: all of it. When the sweep comes to the end, the beginning has been thrown out to make room, so the next sweep
# begins with a fault, and throws out what it will need next. A loop over slightly too much data is the worst case for every
# cache that gives up the oldest first. What helps is to change the order: do all that there is to do on a part that fits, then take the next
# part (and prefetch it).
#
# ## The same in CUDA C++
#
# | here | CUDA C++ |
# |---|---|
# | `cuda.managed_array(n, dtype)` | `cudaMallocManaged(&x, nbytes)`; for a global variable `__managed__` |
# | `prefetch(x)`, `prefetch(x, "host")` | `cudaMemPrefetchAsync(x, nbytes, location, 0, stream)` |
# | `advise(x, "read mostly")` | `cudaMemAdvise(x, nbytes, cudaMemAdviseSetReadMostly, location)` |
# | `advise(x, "preferred location", where)` | `cudaMemAdviseSetPreferredLocation` |
# | `advise(x, "accessed by", where)` | `cudaMemAdviseSetAccessedBy` |
#
# On Windows, in WSL 2 and on some small devices the GPU cannot fault: everything moves before each launch, and the host may not touch
# it while a kernel runs. Ask for the attribute `CONCURRENT_MANAGED_ACCESS` before you count on what is said here. Where CPU and
# GPU share page tables (Grace Hopper), the host reaches the GPU's memory without a move, and even `malloc` is managed.
#
# ## What Nsight Systems would show
#
# `nsys profile --cuda-um-gpu-page-faults=true --cuda-um-cpu-page-faults=true python script.py`: under *Unified memory* a row of GPU page faults, a row of
# CPU page faults, and the migrations with their reason: *on demand*, *prefetch*, *eviction*. A kernel that is much longer in its
# first run than in its second is the sign to look there. Nsight Compute will not show it: it runs a kernel again and again, and only
# the first run faults.
#
# ## To take away
#
# * One address, but one owner at a time. A touch from the wrong side moves 64 KB or more, and somebody waits.
# * Prefetch what you know. Then managed memory is as fast as explicit copies, with half the bookkeeping.
# * Two sides on one leaf is thrashing. Keep apart what they share, or say *read mostly*.
# * Sparse, unpredictable access to large data is where managed memory wins.
# * It may be larger than the device; a sweep over slightly too much moves everything.
#
# ## Exercises
#
# In `exercises/07-managed-memory`:
#
# 1. **`prefetch`**: a chain of kernels that waits for pages. Remove the faults.
# 2. **`advise`**: a table that both sides read, and a scratch array that the host keeps clearing. Stop the ping-pong.
