"""initcheck: reads of what nobody has written, in global, shared and local memory."""

import numpy as np
from cuda.bindings import driver
from numba import cuda, float32, int32, uint32
from primitives import address, commit, copy4, copy4_part, load4, shared, wait_0

N = 64
DATA = np.arange(N, dtype=np.float32)


class View:
    """Some bytes on the device as an array."""

    def __init__(self, pointer, shape, dtype):
        self.__cuda_array_interface__ = {
            "data": (pointer, False), "shape": shape, "typestr": np.dtype(dtype).str, "version": 3,
        }  # fmt: skip


def launch_cpp(source, out, n):
    """Compile CUDA C++ and launch its kernel(float *out, int n) with 64 threads."""
    from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

    Device(0).set_current()
    options = ProgramOptions(arch="sm_80", lineinfo=True)
    module = Program(source, "c++", options=options).compile("ptx")
    stream = Device(0).default_stream
    launch(stream, LaunchConfig(grid=1, block=N), module.get_kernel("kernel"), out.__cuda_array_interface__["data"][0], np.int32(n))
    stream.sync()


@cuda.jit
def double(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 2 * x[i]


# %% device_array that nobody fills
# expect: initcheck, uninitialised read, (1)


@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    out[i] = x[i]  # (1)


kernel[1, N](cuda.device_array(N, np.float32), cuda.device_array(N, np.float32))

# %% device_array that a kernel fills
# expect: silence


x, out = cuda.device_array(N, np.float32), cuda.device_array(N, np.float32)
double[1, N](DATA, x)
double[1, N](x, out)
assert np.array_equal(out.copy_to_host(), 4 * DATA)

# %% device_array that a copy fills
# expect: silence


x, out = cuda.device_array(N, np.float32), cuda.device_array(N, np.float32)
x.copy_to_device(DATA)
double[1, N](x, out)
assert np.array_equal(out.copy_to_host(), 2 * DATA)

# %% device_array that a memset fills
# expect: silence


x, out = cuda.device_array(N, np.float32), cuda.device_array(N, np.float32)
driver.cuMemsetD8(x.__cuda_array_interface__["data"][0], 0, 4 * N)
double[1, N](x, out)
assert (out.copy_to_host() == 0).all()

# %% memset of too few bytes
# expect: initcheck, uninitialised read, (1), says "element 16"


@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    out[i] = x[i]  # (1)


x = cuda.device_array(N, np.float32)
driver.cuMemsetD8(x.__cuda_array_interface__["data"][0], 0, N)
kernel[1, N](x, cuda.device_array(N, np.float32))

# %% half of it filled by a kernel
# expect: initcheck, uninitialised read, (1), says "element 32"


@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    out[i] = x[i]  # (1)


x = cuda.device_array(N, np.float32)
double[1, 32](DATA, x)
kernel[1, N](x, cuda.device_array(N, np.float32))

# %% half of it filled by a copy
# expect: initcheck, uninitialised read, (1)


@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    out[i] = x[i]  # (1)


x = cuda.device_array(N, np.float32)
x[:32].copy_to_device(DATA[:32])
kernel[1, N](x, cuda.device_array(N, np.float32))

# %% only the half that is filled is read
# expect: silence


x, out = cuda.device_array(N, np.float32), cuda.device_array(32, np.float32)
x[:32].copy_to_device(DATA[:32])
double[1, N](x, out)
assert np.array_equal(out.copy_to_host(), 2 * DATA[:32])

# %% sums into what was never cleared
# expect: initcheck, uninitialised read, (1)


@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    out[i] += x[i]  # (1)


kernel[1, N](DATA, cuda.device_array(N, np.float32))

# %% sums into zeros
# expect: silence


@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    out[i] += x[i]


out = cuda.to_device(np.zeros(N, np.float32))
kernel[1, N](DATA, out)
assert np.array_equal(out.copy_to_host(), DATA)

# %% atomic sum into what was never cleared
# expect: initcheck, uninitialised read, (1)


@cuda.jit
def kernel(x, total):
    cuda.atomic.add(total, 0, x[cuda.grid(1)])  # (1)


kernel[1, N](DATA, cuda.device_array(1, np.float32))

# %% counter cleared by the kernel before
# expect: silence


@cuda.jit
def clear(total):
    total[0] = 0


@cuda.jit
def kernel(x, total):
    cuda.atomic.add(total, 0, x[cuda.grid(1)])


total = cuda.device_array(1, np.float32)
clear[1, 1](total)
kernel[1, N](DATA, total)
assert total.copy_to_host()[0] == DATA.sum()

# %% edges that a stencil leaves out
# expect: initcheck, uninitialised read, (1), says "element 0"


@cuda.jit
def stencil(x, out):
    i = cuda.grid(1)
    if 0 < i < N - 1:
        out[i] = x[i - 1] + x[i + 1]


@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    out[i] = x[i]  # (1)


tmp = cuda.device_array(N, np.float32)
stencil[1, N](DATA, tmp)
kernel[1, N](tmp, cuda.device_array(N, np.float32))

# %% every second element
# expect: initcheck, uninitialised read, (1), says "element 1"


@cuda.jit
def evens(out):
    out[2 * cuda.grid(1)] = 1


@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    out[i] = x[i]  # (1)


tmp = cuda.device_array(N, np.float32)
evens[1, 32](tmp)
kernel[1, N](tmp, cuda.device_array(N, np.float32))

# %% copy of an array that was not filled
# expect: initcheck, uninitialised read, (1)


@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    out[i] = x[i]  # (1)


a, b = cuda.device_array(N, np.float32), cuda.device_array(N, np.float32)
b.copy_to_device(a)
kernel[1, N](b, a)

# %% copy of an array that was filled
# expect: silence


a, b = cuda.to_device(DATA), cuda.device_array(N, np.float32)
out = cuda.device_array(N, np.float32)
b.copy_to_device(a)
double[1, N](b, out)
assert np.array_equal(out.copy_to_host(), 2 * DATA)

# %% freed and allocated again
# expect: initcheck, uninitialised read, (1)


@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    out[i] = x[i]  # (1)


first = driver.cuMemAlloc(4 * N)[1]
driver.cuMemsetD32(first, 0, N)
driver.cuMemFree(first)
second = driver.cuMemAlloc(4 * N)[1]
kernel[1, N](View(int(second), (N,), np.float32), cuda.device_array(N, np.float32))

# %% allocated in the order of a stream
# expect: initcheck, uninitialised read, (1)


@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    out[i] = x[i]  # (1)


memory = driver.cuMemAllocAsync(4 * N, 0)[1]
kernel[1, N](View(int(memory), (N,), np.float32), cuda.device_array(N, np.float32))

# %% managed memory that the host filled
# expect: silence


x = cuda.managed_array(N, np.float32)
x[:] = DATA
out = cuda.managed_array(N, np.float32)
double[1, N](x, out)
cuda.synchronize()
assert np.array_equal(out, 2 * DATA)

# %% mapped memory that the host filled
# expect: silence


x = cuda.mapped_array(N, np.float32)
x[:] = DATA
out = cuda.device_array(N, np.float32)
double[1, N](x, out)
assert np.array_equal(out.copy_to_host(), 2 * DATA)

# %% shared array that nobody fills
# expect: initcheck, uninitialised read, (1), says "shared"


@cuda.jit
def kernel(out):
    tile = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    out[i] = tile[i]  # (1)


kernel[1, N](np.zeros(N, np.float32))

# %% shared array that only some threads fill
# expect: initcheck, uninitialised read, (1), says "element 50"


@cuda.jit
def kernel(x, out, n):
    tile = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    if i < n:
        tile[i] = x[i]
    cuda.syncthreads()
    if i == 0:
        total = float32(0)
        for k in range(N):
            total += tile[k]  # (1)
        out[0] = total


kernel[1, N](DATA, np.zeros(1, np.float32), 50)

# %% shared array that is filled up with zeros
# expect: silence


@cuda.jit
def kernel(x, out, n):
    tile = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    tile[i] = x[i] if i < n else 0
    cuda.syncthreads()
    if i == 0:
        total = float32(0)
        for k in range(N):
            total += tile[k]
        out[0] = total


out = np.zeros(1, np.float32)
kernel[1, N](DATA, out, 50)
assert out[0] == DATA[:50].sum()

# %% halo that nobody fills
# expect: initcheck, uninitialised read, (1)


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(66, float32)
    i = cuda.threadIdx.x
    tile[i + 1] = x[i]
    cuda.syncthreads()
    out[i] = tile[i] + tile[i + 2]  # (1)


kernel[1, N](DATA, np.zeros(N, np.float32))

# %% sums of more warps than there are
# expect: initcheck, uninitialised read, (1), says "element 2"


@cuda.jit
def kernel(x, out):
    sums = cuda.shared.array(32, float32)
    i = cuda.threadIdx.x
    value = x[i]
    step = 16
    while step > 0:
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, step)
        step //= 2
    if i % 32 == 0:
        sums[i // 32] = value
    cuda.syncthreads()
    if i < 32:
        value = sums[i]  # (1)
        step = 16
        while step > 0:
            value += cuda.shfl_down_sync(0xFFFFFFFF, value, step)
            step //= 2
        if i == 0:
            out[0] = value


kernel[1, N](DATA, np.zeros(1, np.float32))

# %% sums of as many warps as there are
# expect: silence


@cuda.jit
def kernel(x, out):
    sums = cuda.shared.array(32, float32)
    i = cuda.threadIdx.x
    value = x[i]
    step = 16
    while step > 0:
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, step)
        step //= 2
    if i % 32 == 0:
        sums[i // 32] = value
    cuda.syncthreads()
    if i < 32:
        value = sums[i] if i < N // 32 else 0
        step = 16
        while step > 0:
            value += cuda.shfl_down_sync(0xFFFFFFFF, value, step)
            step //= 2
        if i == 0:
            out[0] = value


out = np.zeros(1, np.float32)
kernel[1, N](DATA, out)
assert out[0] == DATA.sum()

# %% shared sum that starts from nothing
# expect: initcheck, uninitialised read, (1)


@cuda.jit
def kernel(x, out):
    total = cuda.shared.array(1, float32)
    i = cuda.threadIdx.x
    cuda.atomic.add(total, 0, x[i])  # (1)
    cuda.syncthreads()
    if i == 0:
        out[0] = total[0]


kernel[1, N](DATA, np.zeros(1, np.float32))

# %% shared array of the block before
# expect: initcheck, uninitialised read, (1)


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(32, float32)
    i = cuda.threadIdx.x
    if cuda.blockIdx.x == 0:
        tile[i] = x[i]
    cuda.syncthreads()
    out[cuda.grid(1)] = tile[i]  # (1)


kernel[2, 32](DATA, np.zeros(N, np.float32))

# %% dynamic shared memory, its second half
# expect: initcheck, uninitialised read, (1)


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(0, float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]
    cuda.syncthreads()
    out[i] = tile[i + 32]  # (1)


kernel[1, N, 0, 8 * N](DATA, np.zeros(N, np.float32))

# %% tile of a matrix at its edge
# expect: initcheck, uninitialised read, (1)


@cuda.jit
def kernel(a, out):
    tile = cuda.shared.array((8, 8), float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    if x < a.shape[1] and y < a.shape[0]:
        tile[ty, tx] = a[y, x]
    cuda.syncthreads()
    total = float32(0)
    for k in range(8):
        total += tile[ty, k]  # (1)
    if x < a.shape[1] and y < a.shape[0]:
        out[y, x] = total


kernel[(2, 2), (8, 8)](np.ones((12, 12), np.float32), np.zeros((12, 12), np.float32))

# %% tile of a matrix, zeros beyond its edge
# expect: silence


@cuda.jit
def kernel(a, out):
    tile = cuda.shared.array((8, 8), float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    inside = x < a.shape[1] and y < a.shape[0]
    tile[ty, tx] = a[y, x] if inside else 0
    cuda.syncthreads()
    total = float32(0)
    for k in range(8):
        total += tile[ty, k]
    if inside:
        out[y, x] = total


out = np.zeros((12, 12), np.float32)
kernel[(2, 2), (8, 8)](np.ones((12, 12), np.float32), out)
assert (out[:, :8] == 8).all() and (out[:, 8:] == 4).all()

# %% local array of CUDA C++ read before it is written
# expect: initcheck, uninitialised read, line 4, says "local"
SOURCE = """
extern "C" __global__ void kernel(float *out, int n) {
    float own[16];
    for (int k = 0; k < n; k++) own[k * 5 % 16] += 1;
    out[threadIdx.x] = own[threadIdx.x % 16];
}
"""


launch_cpp(SOURCE, cuda.device_array(N, np.float32), 16)

# %% local array of CUDA C++ of which a part is written
# expect: initcheck, uninitialised read, line 5, says "local"
SOURCE = """
extern "C" __global__ void kernel(float *out, int n) {
    float own[16];
    for (int k = 0; k < n; k++) own[k] = k;
    out[threadIdx.x] = own[threadIdx.x * 7 % 16];
}
"""


launch_cpp(SOURCE, cuda.device_array(N, np.float32), 12)

# %% local array of CUDA C++ that is written first
# expect: silence
SOURCE = """
extern "C" __global__ void kernel(float *out, int n) {
    float own[16];
    for (int k = 0; k < n; k++) own[k] = k;
    out[threadIdx.x] = own[threadIdx.x * 7 % n];
}
"""


launch_cpp(SOURCE, cuda.device_array(N, np.float32), 12)

# %% local array, which numba clears
# expect: silence


@cuda.jit
def kernel(out, n):
    own = cuda.local.array(16, float32)
    i = cuda.threadIdx.x
    for k in range(n):
        own[k * 5 % 16] += 1
    out[i] = own[i % 16]


out = np.zeros(N, np.float32)
kernel[1, N](out, 16)
assert (out == 1).all()

# %% local array that is cleared first
# expect: silence


@cuda.jit
def kernel(x, out):
    own = cuda.local.array(16, int32)
    i = cuda.threadIdx.x
    for k in range(16):
        own[k] = 0
    for k in range(N):
        own[int32(x[k]) * (i + 1) % 16] += 1
    most = 0
    for k in range(16):
        most = max(most, own[k])
    out[i] = most


out = np.zeros(N, np.int32)
for _ in range(2):
    kernel[300, N](DATA, out)
assert out[0] == 4 and out[15] == 64

# %% local array of bytes
# expect: silence


@cuda.jit
def kernel(out, n):
    own = cuda.local.array(24, np.uint8)
    i = cuda.threadIdx.x
    for k in range(n):
        own[k * 5 % 24] = k + i
    total = 0
    for k in range(n):
        total += own[k * 7 % 24]
    out[i] = total


out = np.zeros(32, np.int32)
kernel[1, 32](out, 24)
assert out[1] == sum(range(24)) + 24

# %% queue whose end runs ahead
# expect: initcheck, uninitialised read, (1)


@cuda.jit
def push(x, queue, tail):
    i = cuda.grid(1)
    at = cuda.atomic.add(tail, 0, 1)
    if x[i] % 2 == 0:
        queue[at] = i


@cuda.jit
def kernel(queue, tail, out):
    i = cuda.grid(1)
    if i < tail[0]:
        out[i] = queue[i]  # (1)


queue, tail = cuda.device_array(N, np.int32), cuda.to_device(np.zeros(1, np.int32))
push[1, N](DATA, queue, tail)
kernel[1, N](queue, tail, cuda.device_array(N, np.int32))

# %% queue
# expect: silence


@cuda.jit
def push(x, queue, tail):
    i = cuda.grid(1)
    if x[i] % 2 == 0:
        queue[cuda.atomic.add(tail, 0, 1)] = i


@cuda.jit
def kernel(queue, tail, out):
    i = cuda.grid(1)
    if i < tail[0]:
        out[i] = queue[i]


queue, tail = cuda.device_array(N, np.int32), cuda.to_device(np.zeros(1, np.int32))
out = cuda.device_array(N, np.int32)
push[1, N](DATA, queue, tail)
kernel[1, N](queue, tail, out)
assert sorted(out.copy_to_host()[:32]) == list(range(0, N, 2))

# %% asynchronous copy of what was never written
# expect: initcheck, uninitialised read, (1)


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    copy4(shared(tile, i), address(x, i))  # (1)
    commit()
    wait_0()
    cuda.syncthreads()
    out[i] = tile[N - 1 - i]


kernel[1, N](cuda.device_array(N, np.float32), np.zeros(N, np.float32))

# %% asynchronous copy of half a tile
# expect: initcheck, uninitialised read, (1)


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    if i < 32:
        copy4(shared(tile, i), address(x, i))
    commit()
    wait_0()
    cuda.syncthreads()
    out[i] = tile[N - 1 - i]  # (1)


kernel[1, N](DATA, np.zeros(N, np.float32))

# %% asynchronous copy of nothing fills with zeros
# expect: silence


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    copy4_part(shared(tile, i), address(x, i), uint32(0) if i >= 32 else uint32(4))
    commit()
    wait_0()
    cuda.syncthreads()
    out[i] = tile[N - 1 - i]


x, out = cuda.device_array(N, np.float32), np.ones(N, np.float32)
x[:32].copy_to_device(DATA[:32])
kernel[1, N](x, out)
assert np.array_equal(out, np.where(DATA < 32, DATA, 0)[::-1])

# %% four floats of which one is not written
# expect: initcheck, uninitialised read, (1)


@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    out[i] = load4(address(x, 4 * i))  # (1)


x = cuda.device_array(N, np.float32)
x[: N - 1].copy_to_device(DATA[: N - 1])
kernel[1, 16](x, cuda.device_array(16, np.float32))

# %% fields of records, one of them missing
# expect: initcheck, uninitialised read, (1)
PARTICLE = np.dtype([("x", np.float32), ("mass", np.float32)])


@cuda.jit
def place(particles):
    i = cuda.grid(1)
    particles[i].x = i


@cuda.jit
def kernel(particles, out):
    i = cuda.grid(1)
    out[i] = particles[i].x * particles[i].mass  # (1)


particles = cuda.device_array(N, PARTICLE)
place[1, N](particles)
kernel[1, N](particles, cuda.device_array(N, np.float32))

# %% fields of records, all that are read
# expect: silence
PARTICLE = np.dtype([("x", np.float32), ("kind", np.uint8)], align=True)


@cuda.jit
def place(particles):
    i = cuda.grid(1)
    particles[i].x = i
    particles[i].kind = 1


@cuda.jit
def kernel(particles, out):
    i = cuda.grid(1)
    out[i] = particles[i].x * particles[i].kind


particles, out = cuda.device_array(N, PARTICLE), cuda.device_array(N, np.float32)
place[1, N](particles)
kernel[1, N](particles, out)
assert np.array_equal(out.copy_to_host(), DATA)

# %% result that the host reads although half is not written
# expect: silence


@cuda.jit
def kernel(out):
    i = cuda.grid(1)
    out[i] = i


out = cuda.device_array(N, np.float32)
kernel[1, 32](out)
assert np.array_equal(out.copy_to_host()[:32], DATA[:32])

# %% written by one block and read by the next launch
# expect: silence


@cuda.jit
def fill(out):
    if cuda.blockIdx.x == 1:
        for k in range(cuda.threadIdx.x, out.size, 32):
            out[k] = k


x, out = cuda.device_array(N, np.float32), cuda.device_array(N, np.float32)
fill[2, 32](x)
double[1, N](x, out)
assert np.array_equal(out.copy_to_host(), 2 * DATA)

# %% memory that cuMemset fills, read as numbers
# expect: silence

x, out = cuda.device_array(N, np.float32), cuda.device_array(N, np.float32)
driver.cuMemsetD8(x.__cuda_array_interface__["data"][0], 0, x.nbytes)
double[1, N](x, out)
assert not out.copy_to_host().any()

# %% copy from device to device of what is written
# expect: silence

x, y, out = (cuda.device_array(N, np.float32) for _ in range(3))
x.copy_to_device(DATA)
y.copy_to_device(x)
double[1, N](y, out)
assert np.array_equal(out.copy_to_host(), 2 * DATA)

# %% each thread reads only the half that its own block has written
# expect: silence


@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    x[i] = i
    cuda.syncthreads()
    other = cuda.blockIdx.x * cuda.blockDim.x + (cuda.threadIdx.x + 1) % cuda.blockDim.x
    out[i] = x[other]


x, out = cuda.device_array(N, np.float32), cuda.device_array(N, np.float32)
kernel[2, N // 2](x, out)
assert sorted(out.copy_to_host()) == list(range(N))

# %% read only where a flag says that it is written
# expect: silence


@cuda.jit
def kernel(x, written, out):
    i = cuda.grid(1)
    if i % 2:
        x[i] = i
        written[i] = 1
    out[i] = x[i] if written[i] else float32(0)


x, out = cuda.device_array(N, np.float32), cuda.device_array(N, np.float32)
kernel[1, N](x, np.zeros(N, np.int32), out)
assert np.array_equal(out.copy_to_host(), np.where(np.arange(N) % 2, DATA, 0))

# %% counters that an atomic add starts from a memset's zero
# expect: silence


@cuda.jit
def kernel(counts):
    cuda.atomic.add(counts, cuda.threadIdx.x % 4, 1)


counts = cuda.device_array(4, np.int32)
driver.cuMemsetD32(counts.__cuda_array_interface__["data"][0], 0, 4)
kernel[2, N](counts)
assert counts.copy_to_host().tolist() == [N // 2] * 4
