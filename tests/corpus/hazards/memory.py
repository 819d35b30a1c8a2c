"""memcheck: out of bounds, freed, misaligned; and indexes that look wrong and are not."""

import ctypes

import numpy as np
from cuda.bindings import driver
from numba import cuda, float32, int32
from primitives import address, commit, copy4, copy16, load2_shared, load4, shared, store4, wait_0

N = 100
DATA = np.arange(N, dtype=np.float32)


def view(pointer, shape, dtype):
    """Some bytes on the device as an array, with nobody's word for it."""
    dtype = np.dtype(dtype)
    memory = cuda.cudadrv.driver.MemoryPointer(cuda.current_context(), ctypes.c_void_p(pointer), int(np.prod(shape)) * dtype.itemsize)
    return cuda.cudadrv.devicearray.DeviceNDArray(shape, (dtype.itemsize,), dtype, gpu_data=memory)


def pointer_of(array):
    return array.__cuda_array_interface__["data"][0]


# %% no bounds check
# expect: memcheck, out of bounds, (1), says "writes 4 bytes"


@cuda.jit
def kernel(out):
    i = cuda.grid(1)
    out[i] = i  # (1)


kernel[4, 32](np.zeros(N, np.float32))

# %% bounds check
# expect: silence


@cuda.jit
def kernel(out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = i


out = np.zeros(N, np.float32)
kernel[4, 32](out)
assert np.array_equal(out, DATA)

# %% bounds check that lets one too many in
# expect: memcheck, out of bounds, (1), says "0 bytes past the end"


@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    if i <= x.size:
        out[i] = 2 * x[i]  # (1)


kernel[4, 32](DATA, np.zeros(N + 1, np.float32))

# %% right neighbour of the last
# expect: memcheck, out of bounds, (1), says "reads 4 bytes"


@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i] + x[i + 1]  # (1)


kernel[4, 32](DATA, np.zeros(N, np.float32))

# %% left neighbour of the first is the last element
# expect: silence


@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i - 1]


out = np.zeros(N, np.float32)
kernel[4, 32](DATA, out)
assert np.array_equal(out, np.roll(DATA, 1))

# %% further to the left than the array is long
# expect: memcheck, out of bounds, (1), says "before the start"


@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i - N - 5]  # (1)


kernel[4, 32](DATA, np.zeros(N, np.float32))

# %% rows and columns swapped
# expect: memcheck, out of bounds, (1)


@cuda.jit
def kernel(a):
    x, y = cuda.grid(2)
    if x < a.shape[0] and y < a.shape[1]:
        a[y, x] = 1  # (1)


kernel[(4, 4), (16, 16)](np.zeros((10, 50), np.float32))

# %% rows and columns in order
# expect: silence


@cuda.jit
def kernel(a):
    x, y = cuda.grid(2)
    if y < a.shape[0] and x < a.shape[1]:
        a[y, x] = 1


a = np.zeros((10, 50), np.float32)
kernel[(4, 4), (16, 16)](a)
assert (a == 1).all()

# %% last row and column of a matrix
# expect: memcheck, out of bounds, (1)


@cuda.jit
def kernel(a, out):
    x, y = cuda.grid(2)
    if y < a.shape[0] and x < a.shape[1]:
        out[y, x] = a[y + 1, x]  # (1)


kernel[1, (16, 16)](np.zeros((16, 16), np.float32), np.zeros((16, 16), np.float32))

# %% result shorter than the input
# expect: memcheck, out of bounds, (1)


@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i]  # (1)


kernel[4, 32](DATA, np.zeros(N - 10, np.float32))

# %% stride that runs over
# expect: memcheck, out of bounds, (1)


@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[3 * i]  # (1)


kernel[2, 32](DATA, np.zeros(40, np.float32))

# %% stride that fits
# expect: silence


@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[3 * i]


out = np.zeros(34, np.float32)
kernel[2, 32](DATA, out)
assert np.array_equal(out, DATA[::3])

# %% gather through a bad index
# expect: memcheck, out of bounds, (1)


@cuda.jit
def kernel(index, x, out):
    i = cuda.grid(1)
    if i < index.size:
        out[i] = x[index[i]]  # (1)


index = np.arange(N)
index[17] = 5000
kernel[4, 32](index, DATA, np.zeros(N, np.float32))

# %% atomic out of bounds
# expect: memcheck, out of bounds, (1), says "updates 4 bytes"


@cuda.jit
def kernel(x, bins):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(bins, int32(x[i]) // 10, 1)  # (1)


kernel[4, 32](DATA, np.zeros(8, np.int32))

# %% atomic within bounds
# expect: silence


@cuda.jit
def kernel(x, bins):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(bins, int32(x[i]) // 10, 1)


bins = np.zeros(10, np.int32)
kernel[4, 32](DATA, bins)
assert (bins == 10).all()

# %% shared array too small
# expect: memcheck, out of bounds, (1), says "shared"


@cuda.jit
def kernel(x):
    tile = cuda.shared.array(32, float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]  # (1)
    cuda.syncthreads()
    x[i] = tile[i]


kernel[1, 64](DATA)

# %% dynamic shared memory forgotten at the launch
# expect: memcheck, out of bounds, (1), says "shared"


@cuda.jit
def kernel(x):
    tile = cuda.shared.array(0, float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]  # (1)
    cuda.syncthreads()
    x[i] = tile[i]


kernel[1, 64](DATA)

# %% dynamic shared memory of half the size
# expect: memcheck, out of bounds, (1), says "128 bytes"


@cuda.jit
def kernel(x):
    tile = cuda.shared.array(0, float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]  # (1)
    cuda.syncthreads()
    x[i] = tile[i]


kernel[1, 64, 0, 128](DATA)

# %% dynamic shared memory of the right size
# expect: silence


@cuda.jit
def kernel(x):
    tile = cuda.shared.array(0, float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]
    cuda.syncthreads()
    x[i] = tile[63 - i]


x = DATA[:64].copy()
kernel[1, 64, 0, 256](x)
assert np.array_equal(x, DATA[:64][::-1])

# %% halo written beyond the tile
# expect: memcheck, out of bounds, (1), says "shared"


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(32, float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]
    if i == 31:
        tile[i + 1] = x[i + 1]  # (1)
    cuda.syncthreads()
    out[i] = tile[i]


kernel[1, 32](DATA, np.zeros(32, np.float32))

# %% local array too small
# expect: memcheck, out of bounds, (1), says "local"


@cuda.jit
def kernel(x, n):
    own = cuda.local.array(8, float32)
    i = cuda.threadIdx.x
    for k in range(n):
        own[k * 3 % 17] = x[k]  # (1)
    x[i] = own[i % 8]


kernel[1, 32](DATA, 16)

# %% local array used whole
# expect: silence


@cuda.jit
def kernel(x, n):
    own = cuda.local.array(8, float32)
    i = cuda.threadIdx.x
    for k in range(n):
        own[k * 3 % 8] = i + k
    x[i] = own[i * 5 % 8]


x = np.zeros(32, np.float32)
kernel[1, 32](x, 8)
i = np.arange(32)
assert np.array_equal(x, i + (i * 5 % 8) * 3 % 8)

# %% constant array
# expect: memcheck, out of bounds, (1)
TABLE = np.arange(16, dtype=np.float32)


@cuda.jit
def kernel(out):
    table = cuda.const.array_like(TABLE)
    i = cuda.grid(1)
    out[i] = table[i]  # (1)


kernel[1, 32](np.zeros(32, np.float32))

# %% constant array, all threads the same element
# expect: memcheck, out of bounds, (1)
TABLE = np.arange(16, dtype=np.float32)


@cuda.jit
def kernel(out, at):
    table = cuda.const.array_like(TABLE)
    i = cuda.grid(1)
    out[i] = table[at]  # (1)


kernel[1, 32](np.zeros(32, np.float32), 16)

# %% constant array, inside
# expect: silence
TABLE = np.arange(16, dtype=np.float32)


@cuda.jit
def kernel(out, n):
    table = cuda.const.array_like(TABLE)
    i = cuda.grid(1)
    total = table[i % 16]
    for k in range(n):
        total += table[k]
    out[i] = total


out = np.zeros(32, np.float32)
kernel[1, 32](out, 16)
assert np.array_equal(out, np.arange(32) % 16 + 120)

# %% four floats at an address of one
# expect: memcheck, misaligned, (1), says "multiple of 16"


@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    if i < 16:
        out[i] = load4(address(x, 4 * i + 1))  # (1)


kernel[1, 32](DATA, np.zeros(16, np.float32))

# %% four floats stored at an address of two
# expect: memcheck, misaligned, (1), says "multiple of 16"


@cuda.jit
def kernel(out):
    i = cuda.grid(1)
    one = float32(1)
    if i < 16:
        store4(address(out, 4 * i + 2), one, one, one, one)  # (1)


kernel[1, 32](np.zeros(N, np.float32))

# %% four floats, aligned
# expect: silence


@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    if i < 25:
        v = load4(address(x, 4 * i))
        store4(address(out, 4 * i), v, v, v, v)


out = np.zeros(N, np.float32)
kernel[1, 32](DATA, out)
assert np.array_equal(out, np.repeat(DATA[::4], 4))

# %% four floats over the end
# expect: memcheck, out of bounds, (1), says "reads 16 bytes"


@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    out[i] = load4(address(x, 4 * i))  # (1)


kernel[1, 32](DATA, np.zeros(32, np.float32))

# %% two shared floats at an odd place
# expect: memcheck, misaligned, (1), says "multiple of 8"


@cuda.jit
def kernel(out):
    tile = cuda.shared.array(64, float32)
    i = cuda.threadIdx.x
    tile[i] = i
    tile[i + 32] = i
    cuda.syncwarp()
    out[i] = load2_shared(shared(tile, i))  # (1)


kernel[1, 32](np.zeros(32, np.float32))

# %% doubles in the middle of floats
# expect: memcheck, misaligned, (1), says "multiple of 8"


@cuda.jit
def kernel(x):
    x[cuda.grid(1)] = 1  # (1)


floats = cuda.to_device(DATA)
kernel[1, 32](view(pointer_of(floats) + 4, (32,), np.float64))

# %% array that was freed
# expect: memcheck, use after free, (1), says "freed"


@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    out[i] = x[i]  # (1)


memory = driver.cuMemAlloc(400)[1]
old = view(int(memory), (N,), np.float32)
driver.cuMemsetD32(memory, 0, N)
driver.cuMemFree(memory)
kernel[1, 64](old, np.zeros(N, np.float32))

# %% array that is freed after its last use
# expect: silence


@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    out[i] = x[i]


memory = driver.cuMemAlloc(400)[1]
driver.cuMemsetD32(memory, 0, N)
out = np.ones(64, np.float32)
kernel[1, 64](view(int(memory), (N,), np.float32), out)
driver.cuMemFree(memory)
assert (out == 0).all()

# %% freed while the kernel is still queued
# expect: silence


@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    out[i] = x[i]


memory = driver.cuMemAlloc(400)[1]
driver.cuMemsetD32(memory, 0, N)
out = cuda.device_array(64, np.float32)
kernel[1, 64](view(int(memory), (N,), np.float32), out)
driver.cuMemFree(memory)
assert (out.copy_to_host() == 0).all()

# %% pinned memory that was freed
# expect: memcheck, use after free, (1), says "freed"


@cuda.jit
def kernel(x):
    x[cuda.grid(1)] = 1  # (1)


memory = driver.cuMemAllocHost(400)[1]
old = view(int(memory), (N,), np.float32)
driver.cuMemFreeHost(memory)
kernel[1, 64](old)

# %% freed twice
# expect: memcheck, double free, (1)


memory = driver.cuMemAlloc(400)[1]
driver.cuMemFree(memory)
driver.cuMemFree(memory)  # (1)

# %% middle of an allocation freed
# expect: memcheck, invalid free, (1)


memory = driver.cuMemAlloc(400)[1]
driver.cuMemFree(int(memory) + 16)  # (1)

# %% allocated, freed, allocated
# expect: silence


for _ in range(3):
    memory = driver.cuMemAlloc(400)[1]
    driver.cuMemFree(memory)

# %% address of the host's
# expect: memcheck, out of bounds, (1), says "memory of the host"


@cuda.jit
def kernel(x):
    x[cuda.grid(1)] = 1  # (1)


host = np.zeros(N, np.float32)
kernel[1, 64](view(host.ctypes.data, (N,), np.float32))

# %% pinned memory of the host
# expect: silence


@cuda.jit
def kernel(x):
    x[cuda.grid(1)] = 1


host = cuda.mapped_array(64, np.float32)
kernel[1, 64](host)
cuda.synchronize()
assert (host == 1).all()

# %% field of a null pointer
# expect: memcheck, out of bounds, (1), says "null"


@cuda.jit
def kernel(x):
    x[cuda.grid(1)] = 1  # (1)


kernel[1, 64](view(16, (N,), np.float32))

# %% asynchronous copy from beyond the end
# expect: memcheck, out of bounds, (1)


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(32, float32)
    i = cuda.threadIdx.x
    copy4(shared(tile, i), address(x, 3 * i + 10))  # (1)
    commit()
    wait_0()
    out[i] = tile[i]


kernel[1, 32](DATA, np.zeros(32, np.float32))

# %% asynchronous copy over the end of shared memory
# expect: memcheck, out of bounds, (1), says "shared"


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(16, float32)
    i = cuda.threadIdx.x
    copy4(shared(tile, i), address(x, i))  # (1)
    commit()
    wait_0()
    out[i] = tile[i]


kernel[1, 32](DATA, np.zeros(32, np.float32))

# %% asynchronous copy of 16 bytes to an odd place
# expect: memcheck, misaligned, (1), says "multiple of 16"


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(64, float32)
    i = cuda.threadIdx.x
    if i < 8:
        copy16(shared(tile, 4 * i + 1), address(x, 4 * i))  # (1)
    commit()
    wait_0()
    cuda.syncthreads()
    out[i] = tile[i]


kernel[1, 32](DATA, np.zeros(32, np.float32))

# %% wrong number of threads in a grid-stride loop
# expect: memcheck, out of bounds, (1)


@cuda.jit
def kernel(x, n):
    for i in range(cuda.grid(1), n, cuda.gridsize(1)):
        x[i] += 1  # (1)


kernel[2, 32](cuda.to_device(DATA), 128)

# %% length of another array
# expect: memcheck, out of bounds, (1)


@cuda.jit
def kernel(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[x.size - 1 - i] = x[i]  # (1)


kernel[4, 32](DATA, np.zeros(N // 2, np.float32))

# %% unsigned difference
# expect: memcheck, out of bounds, (1)


@cuda.jit
def kernel(x, out):
    i = np.uint32(cuda.grid(1))
    if i < x.size:
        out[i] = x[np.uint32(i - np.uint32(1))]  # (1)


kernel[4, 32](DATA, np.zeros(N, np.float32))

# %% bytes to the last
# expect: silence


@cuda.jit
def kernel(x):
    i = cuda.grid(1)
    if i < x.size:
        x[x.size - 1 - i] = 7


x = np.zeros(33, np.uint8)
kernel[2, 32](x)
assert (x == 7).all()

# %% slices and views
# expect: silence


@cuda.jit
def kernel(a):
    i = cuda.grid(1)
    if i < a.size:
        a[i] += 1


whole = cuda.to_device(np.zeros(64, np.float64))
kernel[1, 32](whole[10:30])
kernel[1, 32](whole[::2])
kernel[1, 32](whole[-4:])
assert whole.copy_to_host().sum() == 56

# %% empty launch of a loop
# expect: silence


@cuda.jit
def kernel(x, n):
    for i in range(cuda.grid(1), n, cuda.gridsize(1)):
        x[i] = 1


kernel[2, 32](np.zeros(1, np.float32), 0)

# %% records
# expect: silence
PARTICLE = np.dtype([("x", np.float32), ("kind", np.uint8), ("mass", np.float64)], align=True)


@cuda.jit
def kernel(particles):
    i = cuda.grid(1)
    if i < particles.size:
        particles[i].x = i
        particles[i].kind = 2
        particles[i].mass = 0.5 * i


particles = np.zeros(50, PARTICLE)
kernel[2, 32](particles)
assert particles["mass"].sum() == 612.5

# %% last element of many arrays side by side
# expect: silence


@cuda.jit
def kernel(a, b, c):
    i = cuda.grid(1)
    if i < a.size:
        a[i], b[i], c[i] = 1, 2, 3


arrays = [cuda.to_device(np.zeros(N, t)) for t in (np.int8, np.int16, np.int64)]
kernel[4, 32](*arrays)
assert [int(a.copy_to_host().sum()) for a in arrays] == [100, 200, 300]

# %% masked halo
# expect: silence


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(34, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    tile[t + 1] = x[i] if i < x.size else 0
    if t == 0:
        tile[0] = x[i - 1] if 0 < i <= x.size else 0
    if t == 31:
        tile[33] = x[i + 1] if i + 1 < x.size else 0
    cuda.syncthreads()
    if i < x.size:
        out[i] = tile[t] + tile[t + 1] + tile[t + 2]


out = np.zeros(N, np.float32)
kernel[4, 32](DATA, out)
assert np.array_equal(out, np.convolve(DATA, [1, 1, 1], "same").astype(np.float32))

# %% array of no elements
# expect: silence


@cuda.jit
def kernel(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = 1


kernel[1, 32](np.zeros(0, np.float32))

# %% copy beyond the end of an allocation
# expect: memcheck, invalid copy, (1), says "past the end"


memory = driver.cuMemAlloc(400)[1]
driver.cuMemcpyHtoD(memory, np.zeros(101, np.float32).ctypes.data, 404)  # (1)

# %% memset beyond the end of an allocation
# expect: memcheck, invalid copy, (1), says "past the end"


memory = driver.cuMemAlloc(400)[1]
driver.cuMemsetD32(memory, 0, 101)  # (1)

# %% copy to the last byte
# expect: silence


memory = driver.cuMemAlloc(400)[1]
driver.cuMemcpyHtoD(memory, np.zeros(100, np.float32).ctypes.data, 400)
driver.cuMemsetD8(int(memory) + 399, 1, 1)

# %% allocated and never freed, where that is asked for
# expect: memcheck, leak, (1), says "400 bytes of device memory"
from grader import vgpu

vgpu.options().leakcheck = True
kept = driver.cuMemAlloc(400)[1]  # (1)
freed = driver.cuMemAlloc(400)[1]
driver.cuMemFree(freed)

# %% all freed, where leaks are asked for
# expect: silence
from grader import vgpu

vgpu.options().leakcheck = True
x = cuda.to_device(np.ones(N, np.float32))
memory = driver.cuMemAllocAsync(400, 0)[1]
driver.cuMemFreeAsync(memory, 0)
del x

# %% shared array of seven, which the compiler loads as eight
# expect: silence


@cuda.jit
def kernel(out):
    s = cuda.shared.array(0, int32)
    part, other = s[1:3], s[4:6]
    for k in range(7):
        s[k] = 99
    part[0] = part[1] = 1
    other[0] = other[1] = 2
    out[0], out[1], out[2], out[3], out[4], out[5], out[6] = s[0], s[1], s[2], s[3], s[4], s[5], s[6]


out = np.zeros(7, np.int32)
kernel[1, 1, 0, 28](out)
assert out.tolist() == [99, 1, 1, 99, 2, 2, 99]

# %% guarded tail of a grid that is larger than the array
# expect: silence


@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[x.size - 1 - i]


out = np.zeros(N, np.float32)
kernel[4, 64](DATA, out)
assert np.array_equal(out, DATA[::-1])

# %% index from the end, which numba wraps
# expect: silence


@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    if 0 < i <= x.size:
        out[i - 1] = x[-i]


out = np.zeros(N, np.float32)
kernel[4, 64](DATA, out)
assert np.array_equal(out, DATA[::-1])

# %% every second element of a slice that ends with the array
# expect: silence


@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i]


out = np.zeros(N // 2, np.float32)
kernel[1, 64](cuda.to_device(DATA)[1::2], out)
assert np.array_equal(out, DATA[1::2])
