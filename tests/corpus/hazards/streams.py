"""racecheck between streams, graph nodes and the host."""

from types import SimpleNamespace

import numpy as np
from cuda.bindings import driver
from numba import cuda

N = 1024


@cuda.jit
def scale(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = 2 * x[i]


@cuda.jit
def fill(x, value):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = value


@cuda.jit
def count(x, bins):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(bins, x[i], 1)


@cuda.jit
def every_other(x, first):
    i = first + 2 * cuda.grid(1)
    if i < x.size:
        x[i] = i


def pointer(array):
    return array.__cuda_array_interface__["data"][0]


def call(answer):
    assert int(answer[0]) == 0, answer
    return answer[1] if len(answer) == 2 else answer[1:]


def part(array, start, stop):
    """Of a mapped or managed array, for a kernel."""
    data = pointer(array) + 4 * start, False
    interface = {"shape": (stop - start,), "typestr": "<f4", "data": data, "version": 3}
    return cuda.as_cuda_array(SimpleNamespace(__cuda_array_interface__=interface))


def pinned(value=0.0, n=N):
    array = cuda.pinned_array(n, np.float32)
    array[:] = value
    return array


def unordered_stream():
    """One that takes no part in the default stream's order."""
    return cuda.external_stream(int(call(driver.cuStreamCreate(1))))


s, t = cuda.stream(), cuda.stream()

# %% result copied by a stream that does not wait for the kernel
# expect: racecheck, unordered streams, (1) with (2), says "which kernel scale in stream 1"
x, out, host = cuda.to_device(np.ones(N, np.float32)), cuda.device_array(N, np.float32), pinned()
scale[8, 128, s](x, out)  # (2)
out.copy_to_host(host, stream=t)  # (1)
cuda.synchronize()

# %% result copied by a stream that waits for the kernel's event
# expect: silence
x, out, host = cuda.to_device(np.ones(N, np.float32)), cuda.device_array(N, np.float32), pinned()
scale[8, 128, s](x, out)
done = cuda.event()
done.record(s)
done.wait(t)
out.copy_to_host(host, stream=t)
t.synchronize()
assert (host == 2).all()

# %% event recorded before the kernel that it should stand for
# expect: racecheck, unordered streams, (1) with (2)
x, out, host = cuda.to_device(np.ones(N, np.float32)), cuda.device_array(N, np.float32), pinned()
done = cuda.event()
done.record(s)
scale[8, 128, s](x, out)  # (2)
done.wait(t)
out.copy_to_host(host, stream=t)  # (1)
cuda.synchronize()

# %% result copied after the host has waited
# expect: silence
x, out, host = cuda.to_device(np.ones(N, np.float32)), cuda.device_array(N, np.float32), pinned()
scale[8, 128, s](x, out)
s.synchronize()
out.copy_to_host(host, stream=t)
t.synchronize()
assert (host == 2).all()

# %% the host waits for the wrong stream
# expect: racecheck, unordered streams, (1) with (2)
x, out, host = cuda.to_device(np.ones(N, np.float32)), cuda.device_array(N, np.float32), pinned()
scale[8, 128, s](x, out)  # (2)
t.synchronize()
out.copy_to_host(host, stream=t)  # (1)
cuda.synchronize()

# %% the host asks until the event is over
# expect: silence
x, out, host = cuda.to_device(np.ones(N, np.float32)), cuda.device_array(N, np.float32), pinned()
scale[8, 128, s](x, out)
done = cuda.event()
done.record(s)
while not done.query():
    pass
out.copy_to_host(host, stream=t)
t.synchronize()

# %% the default stream and one that does not wait for it
# expect: racecheck, unordered streams, (1) with (2), says "in the default stream"
free = unordered_stream()
x = cuda.device_array(N, np.float32)
fill[8, 128](x, 1.0)  # (2)
fill[8, 128, free](x, 2.0)  # (1)
cuda.synchronize()

# %% the default stream and a blocking one
# expect: silence
x, host = cuda.device_array(N, np.float32), pinned()
fill[8, 128, s](x, 1.0)
fill[8, 128](x, 2.0)
fill[8, 128, t](x, 3.0)
x.copy_to_host(host)
assert (host == 3).all()

# %% a thread's default stream and the default stream
# expect: silence
x = cuda.device_array(N, np.float32)
fill[8, 128, cuda.per_thread_default_stream()](x, 1.0)
fill[8, 128](x, 2.0)
fill[8, 128, cuda.per_thread_default_stream()](x, 3.0)
cuda.synchronize()

# %% a thread's default stream and a stream of its own
# expect: racecheck, unordered streams, (1) with (2)
x = cuda.device_array(N, np.float32)
fill[8, 128, cuda.per_thread_default_stream()](x, 1.0)  # (2)
fill[8, 128, s](x, 2.0)  # (1)
cuda.synchronize()

# %% halves that overlap
# expect: racecheck, unordered streams, (1) with (2), says "bytes 2044 to 2047"
x = cuda.device_array(N, np.float32)
fill[8, 128, s](x[: N // 2], 1.0)  # (2)
fill[8, 128, t](x[N // 2 - 1 :], 2.0)  # (1)
cuda.synchronize()

# %% halves side by side
# expect: silence
x = cuda.device_array(N, np.float32)
fill[8, 128, s](x[: N // 2], 1.0)
fill[8, 128, t](x[N // 2 :], 2.0)
cuda.synchronize()

# %% even elements here, odd ones there
# expect: silence
x = cuda.device_array(N, np.float32)
every_other[4, 128, s](x, 0)
every_other[4, 128, t](x, 1)
cuda.synchronize()

# %% even elements here and there
# expect: racecheck, unordered streams, (1) with (2)
x = cuda.device_array(N, np.float32)
every_other[4, 128, s](x, 0)  # (2)
every_other[4, 128, t](x, 2)  # (1)
cuda.synchronize()

# %% two readers of one array
# expect: silence
x, a, b = cuda.to_device(np.ones(N, np.float32)), cuda.device_array(N, np.float32), cuda.device_array(N, np.float32)
scale[8, 128, s](x, a)
scale[8, 128, t](x, b)
cuda.synchronize()

# %% two streams count into the same bins with atomics
# expect: silence
x, bins = cuda.to_device(np.arange(N, dtype=np.int32) % 16), cuda.to_device(np.zeros(16, np.int32))
count[8, 128, s](x, bins)
count[8, 128, t](x, bins)
cuda.synchronize()
assert (bins.copy_to_host() == N // 8).all()

# %% bins cleared while another stream counts into them
# expect: racecheck, unordered streams, (1) with (2), says "updates"
x, bins = cuda.to_device(np.arange(N, dtype=np.int32) % 16), cuda.to_device(np.zeros(16, np.int32))
count[8, 128, s](x, bins)  # (2)
call(driver.cuMemsetD32Async(pointer(bins), 0, 16, int(t.handle)))  # (1)
cuda.synchronize()

# %% chunks in two streams that share one buffer
# expect: racecheck, unordered streams, (1) with (1)
source, result = pinned(1.0, 8 * N), pinned(0.0, 8 * N)
buffer, out = cuda.device_array(N, np.float32), [cuda.device_array(N, np.float32) for _ in range(2)]
for k in range(8):
    stream, chunk = (s, t)[k % 2], slice(k * N, (k + 1) * N)
    buffer.copy_to_device(source[chunk], stream=stream); scale[8, 128, stream](buffer, out[k % 2])  # (1)
    out[k % 2].copy_to_host(result[chunk], stream=stream)
cuda.synchronize()

# %% chunks in two streams with a buffer each
# expect: silence
source, result = pinned(1.0, 8 * N), pinned(0.0, 8 * N)
buffers = [(cuda.device_array(N, np.float32), cuda.device_array(N, np.float32)) for _ in range(2)]
for k in range(8):
    stream, chunk = (s, t)[k % 2], slice(k * N, (k + 1) * N)
    x, out = buffers[k % 2]
    x.copy_to_device(source[chunk], stream=stream)
    scale[8, 128, stream](x, out)
    out.copy_to_host(result[chunk], stream=stream)
cuda.synchronize()
assert (result == 2).all()

# %% chunks of one large array in four streams
# expect: silence
source, result = pinned(1.0, 8 * N), pinned(0.0, 8 * N)
x, out = cuda.device_array(8 * N, np.float32), cuda.device_array(8 * N, np.float32)
streams = [cuda.stream() for _ in range(4)]
for k in range(8):
    stream, chunk = streams[k % 4], slice(k * N, (k + 1) * N)
    x[chunk].copy_to_device(source[chunk], stream=stream)
    scale[8, 128, stream](x[chunk], out[chunk])
    out[chunk].copy_to_host(result[chunk], stream=stream)
cuda.synchronize()
assert (result == 2).all()

# %% chunks of one large array, one element too many
# expect: racecheck, unordered streams, (1) with (1)
source = pinned(1.0, 4 * N + 1)
x, out = cuda.device_array(4 * N + 1, np.float32), cuda.device_array(4 * N, np.float32)
for k in range(4):
    chunk, halo = slice(k * N, (k + 1) * N), slice(k * N, (k + 1) * N + 1)
    x[halo].copy_to_device(source[halo], stream=(s, t)[k % 2])  # (1)
    scale[8, 128, (s, t)[k % 2]](x[chunk], out[chunk])
cuda.synchronize()

# %% double buffer: copies in one stream, kernels in another, an event each way
# expect: silence
source, result = pinned(1.0, 8 * N), pinned(0.0, 8 * N)
x = [cuda.device_array(N, np.float32) for _ in range(2)]
out = cuda.device_array(8 * N, np.float32)
loaded, used = [[cuda.event() for _ in range(2)] for _ in range(2)]
for k in range(8):
    b, chunk = k % 2, slice(k * N, (k + 1) * N)
    if k >= 2:
        used[b].wait(s)
    x[b].copy_to_device(source[chunk], stream=s)
    loaded[b].record(s)
    loaded[b].wait(t)
    scale[8, 128, t](x[b], out[chunk])
    used[b].record(t)
out.copy_to_host(result, stream=t)
t.synchronize()
assert (result == 2).all()

# %% double buffer: the next copy does not wait until the buffer has been used
# expect: racecheck, unordered streams, (1) with (2), says "writes"
source = pinned(1.0, 8 * N)
x = [cuda.device_array(N, np.float32) for _ in range(2)]
out = cuda.device_array(8 * N, np.float32)
loaded = [cuda.event() for _ in range(2)]
for k in range(8):
    b, chunk = k % 2, slice(k * N, (k + 1) * N)
    x[b].copy_to_device(source[chunk], stream=s)  # (1)
    loaded[b].record(s)
    loaded[b].wait(t)
    scale[8, 128, t](x[b], out[chunk])  # (2)
cuda.synchronize()

# %% double buffer: the kernel does not wait until the buffer is full
# expect: racecheck, unordered streams, (2) with (1), says "reads"
source = pinned(1.0, 2 * N)
x = [cuda.device_array(N, np.float32) for _ in range(2)]
out = cuda.device_array(2 * N, np.float32)
for k in range(2):
    x[k].copy_to_device(source[k * N : (k + 1) * N], stream=s)  # (1)
    scale[8, 128, t](x[k], out[k * N : (k + 1) * N])  # (2)
cuda.synchronize()

# %% rows of a pitched copy beside another stream's columns
# expect: silence
matrix, memory = pinned(1.0, 64 * 16), cuda.device_array((64, 32), np.float32)
for stream, column in ((s, 0), (t, 16)):
    params = driver.CUDA_MEMCPY2D()
    params.srcMemoryType, params.srcHost, params.srcPitch = driver.CUmemorytype.CU_MEMORYTYPE_HOST, matrix.ctypes.data, 64
    params.dstMemoryType, params.dstDevice, params.dstPitch = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE, pointer(memory), 128
    params.dstXInBytes, params.WidthInBytes, params.Height = 4 * column, 64, 64
    call(driver.cuMemcpy2DAsync(params, int(stream.handle)))
cuda.synchronize()
assert (memory.copy_to_host() == 1).all()

# %% rows of a pitched copy one element too wide
# expect: racecheck, unordered streams, (1) with (1)
matrix, memory = pinned(1.0, 64 * 17), cuda.device_array((64, 34), np.float32)
for stream, column in ((s, 0), (t, 16)):
    params = driver.CUDA_MEMCPY2D()
    params.srcMemoryType, params.srcHost, params.srcPitch = driver.CUmemorytype.CU_MEMORYTYPE_HOST, matrix.ctypes.data, 68
    params.dstMemoryType, params.dstDevice, params.dstPitch = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE, pointer(memory), 136
    params.dstXInBytes, params.WidthInBytes, params.Height = 4 * column, 68, 64
    call(driver.cuMemcpy2DAsync(params, int(stream.handle)))  # (1)
cuda.synchronize()

# %% pinned source changed while the copy is under way
# expect: racecheck, source changed, (1) with (2), says "the host writes byte 28 of"
source, x = pinned(1.0), cuda.device_array(N, np.float32)
x.copy_to_device(source, stream=s)  # (2)
source[7] = 5  # (1)
s.synchronize()

# %% pinned source changed after the copy
# expect: silence
source, x = pinned(1.0), cuda.device_array(N, np.float32)
x.copy_to_device(source, stream=s)
s.synchronize()
source[7] = 5
x.copy_to_device(source, stream=s)
s.synchronize()
assert x.copy_to_host()[7] == 5

# %% pageable source changed after the call
# expect: silence
source, x = np.ones(N, np.float32), cuda.device_array(N, np.float32)
x.copy_to_device(source, stream=s)
source[7] = 5
s.synchronize()
assert (x.copy_to_host() == 1).all()

# %% pinned staging buffer filled again too early
# expect: racecheck, source changed, (1) with (2)
staging, x = pinned(), cuda.device_array(4 * N, np.float32)
for k in range(4):
    staging[:] = k  # (1)
    x[k * N : (k + 1) * N].copy_to_device(staging, stream=s)  # (2)
cuda.synchronize()

# %% pinned staging buffer filled again when its copy is over
# expect: silence
staging, x = pinned(), cuda.device_array(4 * N, np.float32)
for k in range(4):
    staging[:] = k
    x[k * N : (k + 1) * N].copy_to_device(staging, stream=s)
    s.synchronize()
assert (x.copy_to_host() == np.repeat(np.arange(4), N)).all()

# %% pinned buffer that goes to the device, back, and to the device again
# expect: silence
staging, x, y = pinned(1.0), cuda.device_array(N, np.float32), cuda.device_array(N, np.float32)
x.copy_to_device(staging, stream=s)
scale[8, 128, s](x, x)
x.copy_to_host(staging, stream=s)
y.copy_to_device(staging, stream=s)
s.synchronize()
assert (y.copy_to_host() == 2).all()

# %% pinned target written by the host while the copy is under way
# expect: racecheck, host before synchronisation, (1) with (2)
x, target = cuda.to_device(np.ones(N, np.float32)), pinned()
x.copy_to_host(target, stream=s)  # (2)
target[:] = 0.5  # (1)
s.synchronize()

# %% result read although nothing has been waited for
# expect: racecheck, host before synchronisation, (1) with (2), says "the copy to the host in stream 1"
x, host = cuda.to_device(np.ones(N, np.float32)), pinned()
x.copy_to_host(host, stream=s)  # (2)
total = host.sum()  # (1)
s.synchronize()
assert total == 0 and host.sum() == N

# %% result read after its stream has been waited for
# expect: silence
x, host = cuda.to_device(np.ones(N, np.float32)), pinned()
x.copy_to_host(host, stream=s)
s.synchronize()
assert host.sum() == N

# %% result read after another stream has been waited for
# expect: racecheck, host before synchronisation, (1) with (2), says "in stream 1"
x, host = cuda.to_device(np.ones(N, np.float32)), pinned()
x.copy_to_host(host, stream=s)  # (2)
t.synchronize()
print(host[:3])  # (1)
s.synchronize()

# %% result read after an event that was recorded before its copy
# expect: racecheck, host before synchronisation, (1) with (2)
x, host, done = cuda.to_device(np.ones(N, np.float32)), pinned(), cuda.event()
done.record(s)
x.copy_to_host(host, stream=s)  # (2)
done.synchronize()
assert host.max() < 2  # (1)
s.synchronize()

# %% result read after an event that was recorded behind its copy
# expect: silence
x, host, done = cuda.to_device(np.ones(N, np.float32)), pinned(), cuda.event()
x.copy_to_host(host, stream=s)
done.record(s)
x.copy_to_device(host, stream=s)
done.synchronize()
assert host.sum() == N

# %% result read when a query has said that it is not there
# expect: racecheck, host before synchronisation, (1) with (2)
x, host, done = cuda.to_device(np.ones(N, np.float32)), pinned(), cuda.event()
x.copy_to_host(host, stream=s)  # (2)
done.record(s)
if not done.query():
    print(host[5])  # (1)
s.synchronize()

# %% result read when a query has said that it is there
# expect: silence
x, host, done = cuda.to_device(np.ones(N, np.float32)), pinned(), cuda.event()
x.copy_to_host(host, stream=s)
done.record(s)
while not done.query():
    pass
assert host.sum() == N

# %% one half of the result is there, the other is read
# expect: racecheck, host before synchronisation, (1) with (2), says "in stream 2"
x, host = cuda.to_device(np.ones(2 * N, np.float32)), pinned(n=2 * N)
x[:N].copy_to_host(host[:N], stream=s)
x[N:].copy_to_host(host[N:], stream=t)  # (2)
s.synchronize()
print(host[N:].sum())  # (1)
t.synchronize()

# %% one half of the result is read while the other is under way
# expect: silence
x, host = cuda.to_device(np.ones(2 * N, np.float32)), pinned(n=2 * N)
x[:N].copy_to_host(host[:N], stream=s)
x[N:].copy_to_host(host[N:], stream=t)
s.synchronize()
assert host[:N].sum() == N
t.synchronize()

# %% halves that share a page: one is written to a file while the other is under way
# expect: silence
import os

x, host = cuda.to_device(np.ones(1500, np.float32)), pinned(n=1500)
x[:750].copy_to_host(host[:750], stream=s)
s.synchronize()
x[750:].copy_to_host(host[750:], stream=t)
with open(os.devnull, "wb", buffering=0) as file:
    assert file.write(memoryview(host[:750]).cast("B")) == 3000
assert host[:750].sum() == 750
host[:750] = 2
t.synchronize()
assert host.sum() == 2250

# %% elements that no copy touches, in the page that one is writing
# expect: silence
x, host = cuda.to_device(np.ones(100, np.float32)), pinned()
x.copy_to_host(host[:100], stream=s)
host[100:] = 3
assert host[100] == 3
s.synchronize()
assert host[:100].sum() == 100

# %% a sum for each stream, of which one is there
# expect: silence
x, sums = cuda.to_device(np.arange(2, dtype=np.float32)), pinned(n=2)
x[:1].copy_to_host(sums[:1], stream=s)
x[1:].copy_to_host(sums[1:], stream=t)
t.synchronize()
assert sums[1] == 1
s.synchronize()

# %% a sum for each stream, of which none is there
# expect: racecheck, host before synchronisation, (1) with (2), says "byte 4 of"
x, sums = cuda.to_device(np.arange(2, dtype=np.float32)), pinned(n=2)
x[:1].copy_to_host(sums[:1], stream=s)
x[1:].copy_to_host(sums[1:], stream=t)  # (2)
print(float(sums[1]))  # (1)
cuda.synchronize()

# %% results of one stream read in two places: one wait would do
# expect: racecheck, host before synchronisation, (1) with (2)
x, one, two = cuda.to_device(np.ones(N, np.float32)), pinned(), pinned()
x.copy_to_host(one, stream=s)  # (2)
x.copy_to_host(two, stream=s)
print(one.sum())  # (1)
print(two.sum())
s.synchronize()

# %% results read by a function of the program's
# expect: racecheck, host before synchronisation, (1) with (2)


def norm(a):
    return np.sqrt(
        np.dot(a, a)  # (1)
    )


x, host = cuda.to_device(np.ones(N, np.float32)), pinned()
x.copy_to_host(host, stream=s)  # (2)
print(norm(host))
s.synchronize()

# %% result read by another thread of the host, which did not wait
# expect: racecheck, host before synchronisation, (1) with (2)
import threading

x, host = cuda.to_device(np.ones(N, np.float32)), pinned()
x.copy_to_host(host, stream=s)  # (2)


def use():
    print(host.sum())  # (1)


thread = threading.Thread(target=use)
thread.start()
thread.join()
s.synchronize()

# %% result read by a thread when another has waited
# expect: silence
import threading

x, host = cuda.to_device(np.ones(N, np.float32)), pinned()
x.copy_to_host(host, stream=s)


def wait():
    cuda.current_context()
    s.synchronize()


waiting = threading.Thread(target=wait)
waiting.start()
waiting.join()
assert host.sum() == N

# %% pinned source set to what it is already, too early
# expect: racecheck, source changed, (1) with (2)
source, x = pinned(1.0), cuda.device_array(N, np.float32)
x.copy_to_device(source, stream=s)  # (2)
source[:] = 1  # (1)
s.synchronize()

# %% pinned source read while its copy is under way
# expect: silence
source, x = pinned(1.0), cuda.device_array(N, np.float32)
x.copy_to_device(source, stream=s)
assert source.sum() == N
s.synchronize()

# %% results consumed from two buffers in turn, each when its event has come
# expect: silence
x, out = cuda.to_device(np.ones(8 * N, np.float32)), cuda.device_array(8 * N, np.float32)
hosts, done, total = [pinned(), pinned()], [cuda.event(), cuda.event()], 0
for k in range(9):
    if k < 8:
        chunk = slice(k * N, (k + 1) * N)
        scale[8, 128, s](x[chunk], out[chunk])
        out[chunk].copy_to_host(hosts[k % 2], stream=s)
        done[k % 2].record(s)
    if k:
        done[(k - 1) % 2].synchronize()
        total += hosts[(k - 1) % 2].sum()
assert total == 16 * N

# %% results consumed from two buffers in turn, without waiting for the newer one
# expect: racecheck, host before synchronisation, (1) with (2)
x, out = cuda.to_device(np.ones(8 * N, np.float32)), cuda.device_array(8 * N, np.float32)
hosts, done, total = [pinned(), pinned()], [cuda.event(), cuda.event()], 0
for k in range(8):
    chunk = slice(k * N, (k + 1) * N)
    scale[8, 128, s](x[chunk], out[chunk])
    out[chunk].copy_to_host(hosts[k % 2], stream=s)  # (2)
    done[k % 2].record(s)
    done[(k - 1) % 2].synchronize()
    total += hosts[k % 2].sum()  # (1)
s.synchronize()

# %% ring of staging buffers, each filled again when its event has come
# expect: silence
ring, free = [pinned(), pinned(), pinned()], [cuda.event() for _ in range(3)]
x = cuda.device_array(12 * N, np.float32)
for k in range(12):
    free[k % 3].synchronize()
    ring[k % 3][:] = k
    x[k * N : (k + 1) * N].copy_to_device(ring[k % 3], stream=s)
    free[k % 3].record(s)
s.synchronize()
assert (x.copy_to_host() == np.repeat(np.arange(12), N)).all()

# %% ring of staging buffers whose events are recorded before the copies
# expect: racecheck, source changed, (1) with (2)
ring, free = [pinned(), pinned(), pinned()], [cuda.event() for _ in range(3)]
x = cuda.device_array(12 * N, np.float32)
for k in range(12):
    free[k % 3].synchronize()
    ring[k % 3][:] = k  # (1)
    free[k % 3].record(s)
    x[k * N : (k + 1) * N].copy_to_device(ring[k % 3], stream=s)  # (2)
s.synchronize()

# %% mapped array as the target of a copy, read too early
# expect: racecheck, host before synchronisation, (1) with (2)
x, host = cuda.to_device(np.ones(N, np.float32)), cuda.mapped_array(N, np.float32)
host[:] = 0
call(driver.cuMemcpyAsync(pointer(host), pointer(x), 4 * N, int(s.handle)))  # (2)
print(host[N - 1])  # (1)
s.synchronize()

# %% mapped array as the target of a copy, read in time
# expect: silence
x, host = cuda.to_device(np.ones(N, np.float32)), cuda.mapped_array(N, np.float32)
host[:] = 0
call(driver.cuMemcpyAsync(pointer(host), pointer(x), 4 * N, int(s.handle)))
s.synchronize()
assert host.sum() == N

# %% array that is page-locked for a while, read before its copy is over
# expect: racecheck, host before synchronisation, (1) with (2)
x, host = cuda.to_device(np.ones(16 * N, np.float32)), np.zeros(16 * N, np.float32)
with cuda.pinned(host):
    x.copy_to_host(host, stream=s)  # (2)
    print(host[8 * N])  # (1)
    s.synchronize()

# %% array that is page-locked for a while, read when its copy is over
# expect: silence
x, host = cuda.to_device(np.ones(16 * N, np.float32)), np.zeros(16 * N, np.float32)
with cuda.pinned(host):
    x.copy_to_host(host, stream=s)
    s.synchronize()
assert host.sum() == 16 * N

# %% pinned memory that a memset is filling, read too early
# expect: racecheck, host before synchronisation, (1) with (2), says "the memset in stream 1"
host = pinned()
call(driver.cuMemsetD32Async(host.ctypes.data, 0x3F800000, N, int(s.handle)))  # (2)
print(host[0])  # (1)
s.synchronize()
assert host.sum() == N

# %% pinned buffer of cuda.core, read before its copy is over
# expect: racecheck, host before synchronisation, (1) with (2)
from cuda.core import Device, LegacyPinnedMemoryResource

device = Device()
device.set_current()
stream = device.create_stream()
x, buffer = device.allocate(4 * N, stream=stream), LegacyPinnedMemoryResource().allocate(4 * N)
host = np.from_dlpack(buffer).view(np.float32)
host[:] = 0
stream.sync()
x.copy_to(buffer, stream=stream)  # (2)
print(host[0])  # (1)
stream.sync()

# %% pinned buffer of cuda.core, read when its copy is over
# expect: silence
from cuda.core import Device, LegacyPinnedMemoryResource

device = Device()
device.set_current()
stream = device.create_stream()
x, buffer = device.allocate(4 * N, stream=stream), LegacyPinnedMemoryResource().allocate(4 * N)
host = np.from_dlpack(buffer).view(np.float32)
host[:] = 1
x.copy_from(buffer, stream=stream)
assert host[5] == 1
stream.sync()
host[:] = 0
x.copy_to(buffer, stream=stream)
stream.sync()
assert host.sum() == N

# %% graph whose copy to pinned memory is not waited for
# expect: racecheck, host before synchronisation, (1) with (2), says "in a graph in stream 1"
x, host = cuda.to_device(np.ones(N, np.float32)), pinned()
call(driver.cuStreamBeginCapture(int(s.handle), driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
x.copy_to_host(host, stream=s)
graph = call(driver.cuStreamEndCapture(int(s.handle)))
made = call(driver.cuGraphInstantiate(graph, 0))
assert host.sum() == 0  # capturing copies nothing
call(driver.cuGraphLaunch(made, int(s.handle)))  # (2)
print(host.sum())  # (1)
s.synchronize()

# %% graph whose copy to pinned memory is waited for, again and again
# expect: silence
x, host = cuda.to_device(np.ones(N, np.float32)), pinned()
call(driver.cuStreamBeginCapture(int(s.handle), driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
x.copy_to_host(host, stream=s)
graph = call(driver.cuStreamEndCapture(int(s.handle)))
made = call(driver.cuGraphInstantiate(graph, 0))
for _ in range(3):
    host[:] = 0
    call(driver.cuGraphLaunch(made, int(s.handle)))
    s.synchronize()
    assert host.sum() == N

# %% host function looks at the result, in the stream's order
# expect: silence
import ctypes

x, host, seen = cuda.to_device(np.ones(N, np.float32)), pinned(), []


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def look(_):
    seen.append(host.sum())


x.copy_to_host(host, stream=s)
call(driver.cuLaunchHostFunc(int(s.handle), driver.CUhostFn(ctypes.cast(look, ctypes.c_void_p).value), 0))
s.synchronize()
assert seen == [N]

# %% pinned memory freed, which waits, while its copy is under way
# expect: silence
x = cuda.to_device(np.ones(N, np.float32))
for _ in range(8):
    memory = call(driver.cuMemAllocHost(4 * N))
    call(driver.cuMemcpyDtoHAsync(memory, pointer(x), 4 * N, int(s.handle)))
    call(driver.cuMemFreeHost(memory))
    again = pinned(1.0)
    assert again.sum() == N

# %% copy that waits by itself, behind work of a stream that the default stream waits for
# expect: silence
x, host = cuda.to_device(np.ones(N, np.float32)), pinned()
scale[8, 128, s](x, x)
x.copy_to_host(host)
assert host.sum() == 2 * N

# %% mapped array changed while the kernel is queued
# expect: racecheck, source changed, (1) with (2), says "kernel scale in the default stream"
x, out = cuda.mapped_array(N, np.float32), cuda.device_array(N, np.float32)
x[:] = 1
scale[8, 128](x, out)  # (2)
x[:] = 2  # (1)
cuda.synchronize()

# %% managed array changed while the kernel is queued
# expect: racecheck, host before synchronisation, (1) with (2), says "the host writes byte 20 of"
x = cuda.managed_array(N, np.float32)
x[:] = 1
fill[8, 128](x, 3.0)  # (2)
x[5] = 2  # (1)
cuda.synchronize()

# %% mapped array, its other half changed
# expect: silence
x, out = cuda.mapped_array(N, np.float32), cuda.device_array(N, np.float32)
x[:] = 1
scale[4, 128](x, out)  # 512 threads
x[N // 2 :] = 2
cuda.synchronize()

# %% mapped array changed between launches that the host waits for
# expect: silence
x, out = cuda.mapped_array(N, np.float32), cuda.device_array(N, np.float32)
for k in range(3):
    x[:] = k
    scale[8, 128](x, out)
    cuda.synchronize()
assert (out.copy_to_host() == 4).all()

# %% mapped array read while the kernel that fills it is queued
# expect: racecheck, host before synchronisation, (1) with (2), says "reads byte 0 of"
x, out = cuda.to_device(np.ones(N, np.float32)), cuda.mapped_array(N, np.float32)
out[:] = 0
scale[8, 128, s](x, out)  # (2)
print(out.sum())  # (1)
s.synchronize()
assert out.sum() == 2 * N

# %% mapped array read when the kernel that fills it has been waited for
# expect: silence
x, out = cuda.to_device(np.ones(N, np.float32)), cuda.mapped_array(N, np.float32)
out[:] = 0
scale[8, 128, s](x, out)
s.synchronize()
assert out.sum() == 2 * N

# %% mapped array read while the kernel that reads it is queued
# expect: silence
x, out = cuda.mapped_array(N, np.float32), cuda.device_array(N, np.float32)
x[:] = 1
scale[8, 128, s](x, out)
assert x.sum() == N
s.synchronize()

# %% mapped array written to a file while the kernel that reads it is queued
# expect: silence
import os

x, out = cuda.mapped_array(N, np.float32), cuda.device_array(N, np.float32)
x[:] = 1
scale[8, 128, s](x, out)
with open(os.devnull, "wb", buffering=0) as file:
    assert file.write(memoryview(x).cast("B")) == 4 * N
s.synchronize()

# %% mapped array read after another stream than the kernel's has been waited for
# expect: racecheck, host before synchronisation, (1) with (2), says "kernel scale in stream 1"
x, out = cuda.to_device(np.ones(N, np.float32)), cuda.mapped_array(N, np.float32)
scale[8, 128, s](x, out)  # (2)
t.synchronize()
print(out[N - 1])  # (1)
s.synchronize()

# %% mapped array read after an event that was recorded before the kernel
# expect: racecheck, host before synchronisation, (1) with (2)
x, out, done = cuda.to_device(np.ones(N, np.float32)), cuda.mapped_array(N, np.float32), cuda.event()
done.record(s)
scale[8, 128, s](x, out)  # (2)
done.synchronize()
print(out[0])  # (1)
s.synchronize()

# %% mapped array read after an event that was recorded behind the kernel, with the next kernel queued
# expect: silence
x, done = cuda.to_device(np.ones(N, np.float32)), cuda.event()
one, two = cuda.mapped_array(N, np.float32), cuda.mapped_array(N, np.float32)
scale[8, 128, s](x, one)
done.record(s)
scale[8, 128, s](x, two)
done.synchronize()
assert one.sum() == 2 * N
s.synchronize()

# %% halves of a mapped array: the one that is there is read
# expect: silence
x, out = cuda.to_device(np.ones(2 * N, np.float32)), cuda.mapped_array(2 * N, np.float32)
scale[8, 128, s](x[:N], part(out, 0, N))
scale[8, 128, t](x[N:], part(out, N, 2 * N))
s.synchronize()
assert out[:N].sum() == 2 * N
t.synchronize()

# %% halves of a mapped array: the one that is not there is read
# expect: racecheck, host before synchronisation, (1) with (2), says "in stream 2"
x, out = cuda.to_device(np.ones(2 * N, np.float32)), cuda.mapped_array(2 * N, np.float32)
scale[8, 128, s](x[:N], part(out, 0, N))
scale[8, 128, t](x[N:], part(out, N, 2 * N))  # (2)
s.synchronize()
print(out[N:].sum())  # (1)
t.synchronize()

# %% even elements of a mapped array are filled, an odd one is read
# expect: silence
x = cuda.mapped_array(N, np.float32)
x[:] = 1
every_other[4, 128, s](x, 0)
assert x[7] == 1
s.synchronize()

# %% even elements of a mapped array are filled, an even one is read
# expect: racecheck, host before synchronisation, (1) with (2), says "reads byte 24 of"
x = cuda.mapped_array(N, np.float32)
x[:] = 1
every_other[4, 128, s](x, 0)  # (2)
assert x[6] == 1  # (1)
s.synchronize()

# %% a counter in mapped memory that the host looks at while a kernel counts
# expect: silence
x, bins = cuda.to_device(np.zeros(N, np.int32)), cuda.mapped_array(16, np.int32)
bins[:] = 0
count[8, 128, s](x, bins)
print(bins[0])
s.synchronize()
assert bins[0] == N

# %% managed array read while the kernel that fills it is queued
# expect: racecheck, host before synchronisation, (1) with (2), says "kernel fill in the default stream"
x = cuda.managed_array(8 * N, np.float32)
x[:] = 1
fill[64, 128](x, 3.0)  # (2)
print(x[100])  # (1)
cuda.synchronize()
assert (x == 3).all()

# %% managed arrays: the input is read while the kernel is queued, the result afterwards
# expect: silence
x, out = cuda.managed_array(40 * N, np.float32), cuda.managed_array(40 * N, np.float32)
x[:] = 1
out[:] = 0
for k in range(3):
    scale[320, 128](x, out)
    assert x[k] == 1
    cuda.synchronize()
    assert (out == 2).all()

# %% managed array, the half that no kernel touches is written and read
# expect: silence
x = cuda.managed_array(64 * N, np.float32)
x[:] = 1
fill[256, 128](part(x, 0, 32 * N), 3.0)
x[32 * N :] = 2
assert x[40 * N] == 2
cuda.synchronize()
assert x.sum() == 3 * 32 * N + 2 * 32 * N

# %% array that is page-locked for a while, read while a kernel fills it
# expect: racecheck, host before synchronisation, (1) with (2)
x, host = cuda.to_device(np.ones(16 * N, np.float32)), np.zeros(16 * N, np.float32)
with cuda.mapped(host) as there:
    scale[128, 128, s](x, there)  # (2)
    print(host[8 * N])  # (1)
    s.synchronize()

# %% array that is page-locked for a while, read when a kernel has filled it
# expect: silence
x, host = cuda.to_device(np.ones(16 * N, np.float32)), np.zeros(16 * N, np.float32)
with cuda.mapped(host) as there:
    scale[128, 128, s](x, there)
    s.synchronize()
    assert host.sum() == 32 * N

# %% graph whose kernel fills a mapped array that is not waited for
# expect: racecheck, host before synchronisation, (1) with (2), says "kernel scale in a graph in stream 1"
x, out = cuda.to_device(np.ones(N, np.float32)), cuda.mapped_array(N, np.float32)
scale[8, 128](x, out)
cuda.synchronize()
call(driver.cuStreamBeginCapture(int(s.handle), driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
scale[8, 128, s](x, out)
graph = call(driver.cuStreamEndCapture(int(s.handle)))
made = call(driver.cuGraphInstantiate(graph, 0))
assert out.sum() == 2 * N
call(driver.cuGraphLaunch(made, int(s.handle)))
s.synchronize()
call(driver.cuGraphLaunch(made, int(s.handle)))  # (2)
print(out.sum())  # (1)
s.synchronize()

# %% copy to pinned memory in a child graph that is not waited for
# expect: racecheck, host before synchronisation, (1) with (2), says "the copy to the host in a graph in stream 1"
x, host = cuda.to_device(np.ones(N, np.float32)), pinned()
call(driver.cuStreamBeginCapture(int(s.handle), driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
x.copy_to_host(host, stream=s)
child = call(driver.cuStreamEndCapture(int(s.handle)))
graph = call(driver.cuGraphCreate(0))
call(driver.cuGraphAddChildGraphNode(graph, None, 0, child))
made = call(driver.cuGraphInstantiate(graph, 0))
call(driver.cuGraphLaunch(made, int(s.handle)))  # (2)
print(host.sum())  # (1)
s.synchronize()

# %% copy to pinned memory in a child graph that is waited for
# expect: silence
x, host = cuda.to_device(np.ones(N, np.float32)), pinned()
call(driver.cuStreamBeginCapture(int(s.handle), driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
x.copy_to_host(host, stream=s)
child = call(driver.cuStreamEndCapture(int(s.handle)))
graph = call(driver.cuGraphCreate(0))
call(driver.cuGraphAddChildGraphNode(graph, None, 0, child))
made = call(driver.cuGraphInstantiate(graph, 0))
for _ in range(2):
    host[:] = 0
    call(driver.cuGraphLaunch(made, int(s.handle)))
    s.synchronize()
    assert host.sum() == N

# %% results of two kernels read in two places: one wait would do
# expect: racecheck, host before synchronisation, (1) with (2)
x, one, two = cuda.to_device(np.ones(N, np.float32)), cuda.mapped_array(N, np.float32), cuda.mapped_array(N, np.float32)
scale[8, 128, s](x, one)  # (2)
scale[8, 128, s](x, two)
print(one[0])  # (1)
print(two[0])
s.synchronize()

# %% mapped array that two kernels update in turn
# expect: silence
x = cuda.mapped_array(N, np.float32)
x[:] = 1
for _ in range(3):
    scale[8, 128](x, x)
cuda.synchronize()
assert (x == 8).all()

# %% host function fills the next source, in the stream's order
# expect: silence
import ctypes

staging, x = pinned(1.0), cuda.device_array(2 * N, np.float32)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def refill(_):
    staging[:] = 2


x[:N].copy_to_device(staging, stream=s)
call(driver.cuLaunchHostFunc(int(s.handle), driver.CUhostFn(ctypes.cast(refill, ctypes.c_void_p).value), 0))
x[N:].copy_to_device(staging, stream=s)
s.synchronize()
assert x.copy_to_host().sum() == 3 * N

# %% freed in one stream while another uses it
# expect: racecheck, freed in use, (1) with (2)
memory = call(driver.cuMemAllocAsync(4 * N, int(s.handle)))
ready = cuda.event()
ready.record(s)
ready.wait(t)
call(driver.cuMemsetD32Async(memory, 0, N, int(t.handle)))  # (2)
call(driver.cuMemFreeAsync(memory, int(s.handle)))  # (1)
t.synchronize()
s.synchronize()

# %% freed in one stream after another has used it
# expect: silence
memory = call(driver.cuMemAllocAsync(4 * N, int(s.handle)))
ready, used = cuda.event(), cuda.event()
ready.record(s)
ready.wait(t)
call(driver.cuMemsetD32Async(memory, 0, N, int(t.handle)))
used.record(t)
used.wait(s)
call(driver.cuMemFreeAsync(memory, int(s.handle)))
cuda.synchronize()

# %% used by a stream that does not wait for the allocation
# expect: racecheck, unordered streams, (1) with (2), says "cuMemAllocAsync"
memory = call(driver.cuMemAllocAsync(4 * N, int(s.handle)))  # (2)
call(driver.cuMemsetD32Async(memory, 0, N, int(t.handle)))  # (1)
cuda.synchronize()

# %% allocated in a stream that the host waits for
# expect: silence
memory = call(driver.cuMemAllocAsync(4 * N, int(s.handle)))
s.synchronize()
call(driver.cuMemsetD32Async(memory, 0, N, int(t.handle)))
t.synchronize()
call(driver.cuMemFreeAsync(memory, int(s.handle)))

# %% graph whose branches write the same array
# expect: racecheck, unordered nodes, (1) with (1)
x = cuda.device_array(N, np.float32)
fill[8, 128](x, 0.0)
cuda.synchronize()
call(driver.cuStreamBeginCapture(int(s.handle), driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
fork, joined = cuda.event(), cuda.event()
fork.record(s)
fork.wait(t)
fill[8, 128, s](x, 1.0)
fill[8, 128, t](x, 2.0)
joined.record(t)
joined.wait(s)
graph = call(driver.cuStreamEndCapture(int(s.handle)))
made = call(driver.cuGraphInstantiate(graph, 0))
call(driver.cuGraphLaunch(made, int(s.handle)))  # (1)
s.synchronize()

# %% graph whose branches write an array each, joined by a reader
# expect: silence
x, y, z = [cuda.device_array(N, np.float32) for _ in range(3)]
fill[8, 128](x, 0.0)
scale[8, 128](x, z)
cuda.synchronize()
call(driver.cuStreamBeginCapture(int(s.handle), driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
fork, joined = cuda.event(), cuda.event()
fork.record(s)
fork.wait(t)
fill[8, 128, s](x, 1.0)
fill[8, 128, t](y, 2.0)
joined.record(t)
joined.wait(s)
scale[8, 128, s](y, z)
scale[8, 128, s](z, x)
graph = call(driver.cuStreamEndCapture(int(s.handle)))
made = call(driver.cuGraphInstantiate(graph, 0))
for _ in range(3):
    call(driver.cuGraphLaunch(made, int(s.handle)))
s.synchronize()
assert (x.copy_to_host() == 8).all()

# %% graph launched into another stream than the one that fills its input
# expect: racecheck, unordered streams, (1) with (2), says "in a graph"
x, y = cuda.device_array(N, np.float32), cuda.device_array(N, np.float32)
fill[8, 128](x, 0.0)
scale[8, 128](x, y)
cuda.synchronize()
call(driver.cuStreamBeginCapture(int(s.handle), driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
scale[8, 128, s](x, y)
graph = call(driver.cuStreamEndCapture(int(s.handle)))
made = call(driver.cuGraphInstantiate(graph, 0))
fill[8, 128, t](x, 1.0)  # (2)
call(driver.cuGraphLaunch(made, int(s.handle)))  # (1)
cuda.synchronize()

# %% stream destroyed with work in it, and its memory used by the next
# expect: racecheck, unordered streams, (1) with (2)
x = cuda.device_array(N, np.float32)
one = call(driver.cuStreamCreate(0))
call(driver.cuMemsetD32Async(pointer(x), 1, N, one))  # (2)
call(driver.cuStreamDestroy(one))
call(driver.cuMemsetD32Async(pointer(x), 2, N, int(s.handle)))  # (1)
cuda.synchronize()

# %% stream destroyed with work in it, and the device waited for
# expect: silence
x = cuda.device_array(N, np.float32)
one, two = call(driver.cuStreamCreate(1)), call(driver.cuStreamCreate(1))
call(driver.cuMemsetD32Async(pointer(x), 1, N, one))
call(driver.cuMemsetD32Async(pointer(cuda.device_array(N, np.float32)), 1, N, two))
call(driver.cuStreamDestroy(one))
cuda.synchronize()
call(driver.cuMemsetD32Async(pointer(x), 2, N, two))
call(driver.cuMemsetD32Async(pointer(cuda.device_array(N, np.float32)), 1, N, int(s.handle)))
cuda.synchronize()

# %% stream destroyed with work in it, which the default stream waits for
# expect: silence
x = cuda.device_array(N, np.float32)
one = call(driver.cuStreamCreate(0))
call(driver.cuMemsetD32Async(pointer(x), 1, N, one))
call(driver.cuStreamDestroy(one))
fill[8, 128](x, 2.0)
fill[8, 128, s](x, 3.0)
s.synchronize()
assert (x.copy_to_host() == 3).all()

# %% many streams, one after the other
# expect: silence
x = cuda.device_array(N, np.float32)
for k in range(300):
    one = call(driver.cuStreamCreate(1))
    call(driver.cuMemsetD32Async(pointer(x), k, N, one))
    call(driver.cuStreamSynchronize(one))
    call(driver.cuStreamDestroy(one))
