# %% [markdown]
# # 06 · Streams
#
# **You will** let copies and kernels run at the same time, say what may overlap and what may not, put one stream behind another
# with an event, let urgent work go first, and find the call that silently made everything wait.
#
# **You need** lesson 00.
#
# A GPU has separate engines for copying in, for copying out and for computing. In lesson 00 they worked one after the
# other, and the kernel was the thin bar in the picture. They need not: a **stream** is a queue of work that runs in order, and
# *different* streams know nothing of each other. Work in different streams may run at the same time.

# %%
# %load_ext grader
import numpy as np
from cuda.core import Device, StreamOptions
from numba import cuda

from grader.kit import lab

# %% [markdown]
# ## A launch is an order, not a deed
#
# Every launch, and every copy that names a stream, returns at once. The GPU does it later. Here the result is fetched into
# **pinned** host memory, which the GPU can write to by itself.
#
# **Predict.** What do the two `print` lines show?

# %%
@cuda.jit
def work(x, rounds):                     # some arithmetic, as much as you like
    i = cuda.grid(1)
    if i < x.size:
        v = x[i]
        for _ in range(rounds):
            v = v * np.float32(0.5) + np.float32(1)
        x[i] = v


n = 1 << 14
d_x = cuda.to_device(np.zeros(n, np.float32))
result = cuda.pinned_array(n, np.float32)
result[:] = -1

stream = cuda.stream()
work[n // 256, 256, stream](d_x, 100)
d_x.copy_to_host(result, stream=stream)
print("before:", result[:4])
stream.synchronize()
print("after: ", result[:4])

# %% [markdown]
# Before the synchronisation the memory holds whatever it held. On a GPU it may also hold the result, or half of it: it is a race,
# with the host as one of the parties, and NVIDIA's racecheck watches no host. The virtual GPU's does. It also does the work as
# late as it is allowed to, so that this mistake shows every time.
#
# ## A pipeline of chunks
#
# Copy in, compute, copy out, for four megabytes. First in one piece. Then in eight chunks that take turns in several streams:
# while chunk 1 is computed, chunk 2 is copied in, and chunk 0 is copied out.
#
# **Predict.** By what factor can this get faster at best? What would you need to know to say?

# %%
def pipeline(host, device, chunks, streams, rounds=400):
    size = host.size // chunks
    for c in range(chunks):
        part = slice(c * size, (c + 1) * size)
        stream = streams[c % len(streams)]
        device[part].copy_to_device(host[part], stream=stream)
        work[size // 256, 256, stream](device[part], rounds)
        device[part].copy_to_host(host[part], stream=stream)


n = 1 << 20
pinned = cuda.pinned_array(n, np.float32)
pinned[:] = 0
device = cuda.device_array(n, np.float32)
streams = [cuda.stream() for _ in range(8)]
pipeline(pinned, device, 1, streams)                   # compiled before we look

with lab.timeline() as whole:
    pipeline(pinned, device, 1, streams)
with lab.timeline() as chunked:
    pipeline(pinned, device, 8, streams[:3])

whole.draw("In one piece")
chunked.draw("Eight chunks, three streams")

# %%
times = {}
for count in (1, 2, 3, 4, 8):
    with lab.timeline() as t:
        pipeline(pinned, device, 8, streams[:count])
    times[f"{count} stream{'s' if count > 1 else ''}"] = t.microseconds
lab.bars(times, f"microseconds for eight chunks, {lab.how()}", "More streams than stages gain nothing")

# %% [markdown]
# The engine with the most to do sets the pace. When it is never idle, the pipeline is as fast as it can be: total time is the time of
# the *longest* stage, plus filling and emptying the pipeline. That is the answer to the prediction: with three stages at most
# three times faster, and only if all three take equally long.
#
# ### How many chunks?

# %%
times = []
counts = [1, 2, 4, 8, 16, 32, 64]
for chunks in counts:
    with lab.timeline() as t:
        pipeline(pinned, device, chunks, streams[:3])
    times.append(t.microseconds)
lab.curves(counts, {"three streams": times}, "chunks", f"microseconds, {lab.how()}",
           "Few chunks do not overlap, many cost too much")

# %% [markdown]
# Every copy and every launch has a fixed cost. With small chunks that cost is all there is. The best number lies in between, and
# depends on the card: find it by trying.
#
# ### When streams do not help: ordinary memory
#
# An ordinary NumPy array lives in **pageable** memory, which the operating system may move. The GPU cannot fetch from it by
# itself: the driver copies through a pinned buffer of its own, and the call waits. The word `stream` in the call changes nothing.

# %%
pageable = np.zeros(n, np.float32)
times = {}
for name, host in (("pinned", pinned), ("pageable", pageable)):
    for count in (1, 3):
        with lab.timeline() as t:
            pipeline(host, device, 8, streams[:count])
        times[f"{name}, {count} stream{'s' if count > 1 else ''}"] = t.microseconds
lab.bars(times, f"microseconds, {lab.how()}", "Streams need pinned memory")

# %% [markdown]
# Two losses at once: the copies are slower, and nothing overlaps. Pinned memory is not free either: it is taken away from
# everybody else on the machine, and allocating it is slow. Allocate it once, and reuse it.
#
# ## The default stream
#
# A launch without a stream goes to the **default stream**. It has an old rule of its own
# ([manual](https://docs.nvidia.com/cuda/cuda-driver-api/stream-sync-behavior.html)): work in it waits for everything that was given
# to ordinary streams before, and what ordinary streams are given later waits for it. One forgotten `stream` in the middle, and
# the overlap is gone.
#
# **Predict.** Three small kernels, which could well run side by side: the first in stream A, the second in the default stream, the
# third in stream B. Draw the picture.

# %%
small = 1 << 14
arrays = [cuda.to_device(np.zeros(small, np.float32)) for _ in range(3)]


def three(first, second, third):
    for stream, array in zip((first, second, third), arrays):
        work[small // 256, 256, stream](array, 4000)


a, b = cuda.stream(), cuda.stream()
with lab.timeline() as t:
    three(a, 0, b)
t.draw("A, default, B", rows="stream")

# %% [markdown]
# The rule is for **blocking** streams, which is what `cuda.stream()` makes. A **non-blocking** stream ignores the default stream.
# cuda.core's streams are non-blocking:

# %%
core = Device()
core.set_current()
free_a, free_b = core.create_stream(), core.create_stream()
with lab.timeline() as t:
    three(free_a, 0, free_b)
t.draw("non-blocking A, default, non-blocking B", rows="stream")

# %% [markdown]
# In a program of your own, give every call a stream. And mind libraries: what they do in the default stream holds up your blocking
# streams too. (A program can ask for a default stream *per thread*, `nvcc --default-stream per-thread`. That one is an
# ordinary blocking stream: it waits for no other stream but the old default one.)
#
# ## One stream behind another
#
# B needs what A computes. Nothing but you knows that. Without a word, the kernel in B starts at once:

# %%
@cuda.jit
def use(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = 2 * x[i]


x, y = arrays[:2]
use[small // 256, 256](x, y)
with lab.timeline() as t:
    work[small // 256, 256, a](x, 4000)
    use[small // 256, 256, b](x, y)         # too early
t.draw("A race between two streams", rows="stream")

# %% [markdown]
# On the virtual GPU racecheck keeps an eye on the order between streams too, and names both kernels. (It numbers streams in the
# order of their making.)
#
# An **event** is a mark in a stream. `event.record(a)` puts it there; `event.wait(b)` lets B, and only B, wait until A has come to
# it. The host does not wait for anything.

# %%
ready = cuda.event()
with lab.timeline() as t:
    work[small // 256, 256, a](x, 4000)
    ready.record(a)
    ready.wait(b)
    use[small // 256, 256, b](x, y)
t.draw("B waits for A", rows="stream")

# %% [markdown]
# `a.synchronize()` between the two launches would be right as well, and worse: then the *host* waits, and cannot give the GPU anything
# else to do meanwhile.
#
# ## Who goes first
#
# A long kernel works in the background. Now somebody asks a question, and a small kernel has the answer. It has a stream of
# its own; but the background kernel has more blocks than the GPU has places for, and they were there first. A stream can
# have a **priority**. Lower numbers go first: 0 is the lowest priority and what you get if you do not ask, -1 is higher.
#
# **Predict.** The background kernel takes 200 microseconds, the small one five. When is the answer there, with the same priority for
# both streams? And with a higher one for the second?

# %%
background, same = core.create_stream(), core.create_stream()
higher = core.create_stream(options=StreamOptions(priority=-1))
full = cuda.to_device(np.zeros(1 << 21, np.float32))             # 8,192 blocks


def ask(stream, load=full, rounds=200):
    """Microseconds from question to answer, while another kernel runs in the background."""
    asked, answered = cuda.event(), cuda.event()
    work[load.size // 256, 256, background](load, rounds)
    asked.record(stream)
    work[small // 256, 256, stream](arrays[0], 200)
    answered.record(stream)
    cuda.synchronize()
    return 1e3 * cuda.event_elapsed_time(asked, answered)


ask(same)                                                        # compiled before we look
gpu = cuda.get_current_device()
places = gpu.MULTIPROCESSOR_COUNT * gpu.MAX_THREADS_PER_MULTIPROCESSOR // 256
print(f"{full.size // 256} blocks in the background, places for {places} at a time")

# %%
# %%timeline
print(f"the same priority: {ask(same):.0f} us, {lab.how()}")

# %%
# %%timeline
print(f"a higher priority: {ask(higher):.0f} us, {lab.how()}")

# %% [markdown]
# `%%timeline` at the top of a cell draws all that it made the device do, and the calls of the host above it.
#
# With the same priority the small kernel stands behind all blocks of the large one. With a higher one each place that comes
# free is given to its blocks first. The background kernel loses a few places for a few microseconds, and ends hardly later.
#
# ### When a priority does not help

# %%
some = cuda.to_device(np.zeros(places // 4 * 256, np.float32))   # blocks for a quarter of the places
times = {"GPU full, same priority": ask(same), "GPU full, higher priority": ask(higher),
         "places left, same priority": ask(same, some, 4000),
         "places left, higher priority": ask(higher, some, 4000)}
lab.bars(times, f"microseconds from question to answer, {lab.how()}",
         "A priority counts where blocks stand in line")

# %% [markdown]
# * Where places are free, nobody stands in line, and there is nothing to jump.
# * **What runs is not stopped.** A priority is a hint for what is still waiting
#   ([manual](https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__STREAM.html), `cuStreamCreateWithPriority`): on a GPU the
#   small kernel waits until the first blocks of the large one end. Blocks that take their time, such as those of a kernel with a
#   grid-stride loop and just as many blocks as fit, let nobody in until the end. (The virtual GPU's clock is kinder here than a
#   GPU: it gives up places at once. The wait that is missing from the picture is at most the time of one block, here some 20
#   microseconds.)
# * Copies take no notice of it: it is for kernels.
#
# ## The allocation that waits
#
# `cudaMalloc` and `cudaFree` are slow calls, and a free may wait for the whole device besides, since somebody might still be using
# the memory. In a loop this puts gaps between the kernels. (Here they are those of the allocations: numba collects what is to be
# freed, and frees ten arrays at a time.) A **stream-ordered** allocation
# ([guide](https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#stream-ordered-memory-allocator)) is an entry in the
# queue like any other: memory is taken from a pool when the stream gets there, and given back when the stream gets *there*.

# %%
class Scratch:
    """A buffer of cuda.core as an array that numba knows."""

    def __init__(self, buffer, n):
        self.__cuda_array_interface__ = {
            "shape": (n,), "typestr": "<f4", "data": (int(buffer.handle), False), "version": 3,
        }


with lab.timeline() as ordinary:
    for _ in range(5):
        scratch = cuda.device_array(small, np.float32)
        use[small // 256, 256, a](x, scratch)
        work[small // 256, 256, a](scratch, 1000)
        del scratch

with lab.timeline() as ordered:
    for _ in range(5):
        buffer = core.allocate(4 * small, stream=free_a)
        scratch = cuda.as_cuda_array(Scratch(buffer, small), sync=False)
        use[small // 256, 256, free_a](x, scratch)
        work[small // 256, 256, free_a](scratch, 1000)
        buffer.close(free_a)

ordinary.draw("Allocated and freed in every step")
ordered.draw("The same from a pool, in stream order")

# %%
lab.bars({"ordinary": ordinary.microseconds, "stream-ordered": ordered.microseconds},
         f"microseconds for five steps, {lab.how()}", "What allocation costs")

# %% [markdown]
# Better than either is to allocate nothing in the loop.
#
# ## The same in CUDA C++
#
# | here | CUDA C++ |
# |---|---|
# | `cuda.stream()` | `cudaStreamCreate(&s)` (blocking) |
# | `Device().create_stream()` | `cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking)` |
# | `Device().create_stream(options=StreamOptions(priority=-1))` | `cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, -1)` |
# | `kernel[blocks, threads, stream](...)` | `kernel<<<blocks, threads, 0, stream>>>(...)` |
# | `d.copy_to_device(h, stream=s)` | `cudaMemcpyAsync(d, h, n, cudaMemcpyHostToDevice, s)` |
# | `cuda.pinned_array(n)` | `cudaMallocHost(&p, n)` |
# | `event.record(a)`, `event.wait(b)` | `cudaEventRecord(e, a)`, `cudaStreamWaitEvent(b, e)` |
# | `core.allocate(n, stream=s)`, `buffer.close(s)` | `cudaMallocAsync(&p, n, s)`, `cudaFreeAsync(p, s)` |
# | `cuda.per_thread_default_stream()` | `cudaStreamPerThread` |
#
# ## What Nsight Systems would show
#
# `nsys profile --trace=cuda python script.py`: one row per stream, as in the pictures here, and above them the row *CUDA API*. Look for
# three things: gaps in the row of the busiest engine; copies marked *Pageable*; and long bars in the API row (`cudaMemcpy`,
# `cudaFree`, `cudaDeviceSynchronize`), which is the host waiting where it should not.
#
# ## Try it
#
# 1. With `rounds=50` in `pipeline`, which engine sets the pace? How much can streams gain then?
# 2. Give the four chunks of a pipeline to streams A, B, A, B, and forget the stream of one kernel. Find it in the timeline.
# 3. Put an event after the copy of chunk 0 and let the host wait for it, then start a second pipeline. What overlaps?
#
# ## Exercises
#
# In `exercises/06-streams`:
#
# 1. **`overlap`**: write the host's code that copies, computes and copies back in chunks that overlap.
# 2. **`events`**: a fork and a join in every round. Let the streams wait for each other, and the host for nobody.
