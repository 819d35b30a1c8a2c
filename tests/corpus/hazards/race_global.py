"""racecheck in global memory: threads of a block, blocks of a launch."""

import numpy as np
from numba import cuda, float32, int32, uint32
from primitives import address, load_acquire, load_volatile, store_release, store_volatile

N = 256
DATA = np.arange(N, dtype=np.float32)

# %% neighbour's result, within a block
# expect: racecheck, read after write, (1) with (2)


@cuda.jit
def kernel(x, tmp, out):
    i = cuda.grid(1)
    tmp[i] = 2 * x[i]  # (2)
    out[i] = tmp[i ^ 32]  # (1)


kernel[1, N](DATA, np.zeros_like(DATA), np.zeros_like(DATA))

# %% neighbour's result after a barrier
# expect: silence


@cuda.jit
def kernel(x, tmp, out):
    i = cuda.grid(1)
    tmp[i] = 2 * x[i]
    cuda.syncthreads()
    out[i] = tmp[i ^ 32]


out = np.zeros_like(DATA)
kernel[1, N](DATA, np.zeros_like(DATA), out)
assert np.array_equal(out, 2 * DATA.reshape(-1, 2, 32)[:, ::-1].ravel())

# %% neighbour's result, of another block
# expect: racecheck, read after write, (1) with (2)


@cuda.jit
def kernel(x, tmp, out):
    i = cuda.grid(1)
    tmp[i] = 2 * x[i]  # (2)
    cuda.syncthreads()
    out[i] = tmp[(i + 1) % N]  # (1)


kernel[4, 64](DATA, np.zeros_like(DATA), np.zeros_like(DATA))

# %% two launches in place of one
# expect: silence


@cuda.jit
def double(x, tmp):
    i = cuda.grid(1)
    tmp[i] = 2 * x[i]


@cuda.jit
def shift(tmp, out):
    i = cuda.grid(1)
    out[i] = tmp[(i + 1) % N]


tmp, out = cuda.device_array(N, np.float32), np.zeros_like(DATA)
double[4, 64](DATA, tmp)
shift[4, 64](tmp, out)
assert np.array_equal(out, np.roll(2 * DATA, -1))

# %% stencil in place
# expect: racecheck, read after write, (1) with (1)


@cuda.jit
def kernel(x):
    i = cuda.grid(1)
    if 0 < i < N - 1:
        x[i] = (x[i - 1] + x[i] + x[i + 1]) / 3  # (1)


kernel[4, 64](DATA.copy())

# %% stencil from one array to another
# expect: silence


@cuda.jit
def kernel(x, out):
    i = cuda.grid(1)
    if 0 < i < N - 1:
        out[i] = (x[i - 1] + x[i] + x[i + 1]) / 3


out = np.zeros_like(DATA)
kernel[4, 64](DATA, out)
assert np.allclose(out[1:-1], DATA[1:-1])

# %% counter without an atomic
# expect: racecheck, write after write, (1) with (1)


@cuda.jit
def kernel(count):
    count[0] += 1  # (1)


kernel[4, 64](np.zeros(1, np.int32))

# %% counter with an atomic
# expect: silence


@cuda.jit
def kernel(count):
    cuda.atomic.add(count, 0, 1)


count = np.zeros(1, np.int32)
kernel[4, 64](count)
assert count[0] == 256

# %% histogram without atomics
# expect: racecheck, write after write, (1) with (1)


@cuda.jit
def kernel(x, bins):
    i = cuda.grid(1)
    bins[int32(x[i]) % 8] += 1  # (1)


kernel[4, 64](DATA, np.zeros(8, np.int32))

# %% histogram with atomics
# expect: silence


@cuda.jit
def kernel(x, bins):
    i = cuda.grid(1)
    cuda.atomic.add(bins, int32(x[i]) % 8, 1)


bins = np.zeros(8, np.int32)
kernel[4, 64](DATA, bins)
assert (bins == 32).all()

# %% every block writes the result
# expect: racecheck, write after write, (1) with (1)


@cuda.jit
def kernel(x, out):
    if cuda.threadIdx.x == 0:
        out[0] = x[64 * cuda.blockIdx.x]  # (1)


kernel[4, 64](DATA, np.full(1, -1, np.float32))

# %% every block writes the same result
# expect: silence


@cuda.jit
def kernel(x, found):
    i = cuda.grid(1)
    if x[i] > 100:
        found[0] = 1


found = np.zeros(1, np.int32)
kernel[4, 64](DATA, found)
assert found[0] == 1

# %% boundary written by two blocks
# expect: racecheck, write after write, (1) with (1)


@cuda.jit
def kernel(x, out):
    i, block = cuda.threadIdx.x, cuda.blockIdx.x
    if i < 65:
        out[64 * block + i] = x[i] + block  # (1)


kernel[4, 96](DATA, np.zeros(N + 1, np.float32))

# %% sum read while others still add
# expect: racecheck, read after write, (1) with (2)


@cuda.jit
def kernel(x, total, out):
    i = cuda.grid(1)
    cuda.atomic.add(total, 0, x[i])  # (2)
    if i == N - 1:
        out[0] = total[0]  # (1)


kernel[4, 64](DATA, np.zeros(1, np.float32), np.zeros(1, np.float32))

# %% sum of a block read without a barrier
# expect: racecheck, read after write, (1) with (2)


@cuda.jit
def kernel(x, total, out):
    i, block = cuda.threadIdx.x, cuda.blockIdx.x
    cuda.atomic.add(total, block, x[64 * block + i])  # (2)
    if i == 63:
        out[block] = total[block]  # (1)


kernel[4, 64](DATA, np.zeros(4, np.float32), np.zeros(4, np.float32))

# %% sum of a block read after a barrier
# expect: silence


@cuda.jit
def kernel(x, total, out):
    i, block = cuda.threadIdx.x, cuda.blockIdx.x
    cuda.atomic.add(total, block, x[64 * block + i])
    cuda.syncthreads()
    if i == 63:
        out[block] = total[block]


out = np.zeros(4, np.float32)
kernel[4, 64](DATA, np.zeros(4, np.float32), out)
assert np.array_equal(out, DATA.reshape(4, 64).sum(1))

# %% last block adds up, without a fence
# expect: racecheck, read after write, (1) with (2)


@cuda.jit
def kernel(x, parts, count, out):
    i, block = cuda.threadIdx.x, cuda.blockIdx.x
    last = cuda.shared.array(1, int32)
    if i == 0:
        parts[block] = x[64 * block]  # (2)
        last[0] = cuda.atomic.add(count, 0, 1) == 3
    cuda.syncthreads()
    if last[0] and i == 0:
        total = float32(0)
        for k in range(4):
            total += parts[k]  # (1)
        out[0] = total


kernel[4, 64](DATA, np.zeros(4, np.float32), np.zeros(1, np.int32), np.zeros(1, np.float32))

# %% last block adds up, with a fence
# expect: silence


@cuda.jit
def kernel(x, parts, count, out):
    i, block = cuda.threadIdx.x, cuda.blockIdx.x
    last = cuda.shared.array(1, int32)
    if i == 0:
        parts[block] = x[64 * block]
        cuda.threadfence()
        last[0] = cuda.atomic.add(count, 0, 1) == 3
    cuda.syncthreads()
    if last[0] and i == 0:
        total = float32(0)
        for k in range(4):
            total += parts[k]
        out[0] = total
        count[0] = 0


parts, count, out = np.zeros(4, np.float32), np.zeros(1, np.int32), np.zeros(1, np.float32)
for _ in range(2):
    kernel[4, 64](DATA, parts, count, out)
    assert out[0] == DATA[::64].sum() and count[0] == 0

# %% last block, all threads of each write
# expect: silence


@cuda.jit
def kernel(x, parts, count, out):
    i, block = cuda.threadIdx.x, cuda.blockIdx.x
    last = cuda.shared.array(1, int32)
    parts[block, i] = x[64 * block + i]
    cuda.threadfence()
    cuda.syncthreads()
    if i == 0:
        last[0] = cuda.atomic.add(count, 0, 1) == 3
    cuda.syncthreads()
    if last[0]:
        total = float32(0)
        for k in range(4):
            total += parts[k, i]
        out[i] = total


out = np.zeros(64, np.float32)
kernel[4, 64](DATA, np.zeros((4, 64), np.float32), np.zeros(1, np.int32), out)
assert np.array_equal(out, DATA.reshape(4, 64).sum(0))

# %% flag raised without a fence
# expect: racecheck, read after write, (1) with (2)


@cuda.jit
def kernel(data, flag, out):
    if cuda.blockIdx.x == 0:
        data[0] = 42  # (2)
        cuda.atomic.add(flag, 0, 1)
    else:
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass
        out[0] = data[0]  # (1)


kernel[2, 1](np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32))

# %% flag raised after a fence
# expect: silence


@cuda.jit
def kernel(data, flag, out):
    if cuda.blockIdx.x == 0:
        data[0] = 42
        cuda.threadfence()
        cuda.atomic.add(flag, 0, 1)
    else:
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass
        cuda.threadfence()
        out[0] = data[0]


out = np.zeros(1, np.int32)
kernel[2, 1](np.zeros(1, np.int32), np.zeros(1, np.int32), out)
assert out[0] == 42

# %% volatile flag after a fence
# expect: silence


@cuda.jit
def kernel(data, flag, out):
    if cuda.blockIdx.x == 0:
        data[0] = 42
        cuda.threadfence()
        store_volatile(address(flag, 0), uint32(1))
    else:
        while load_volatile(address(flag, 0)) == 0:
            pass
        cuda.threadfence()
        out[0] = data[0]


out = np.zeros(1, np.int32)
kernel[2, 1](np.zeros(1, np.int32), np.zeros(1, np.uint32), out)
assert out[0] == 42

# %% release and acquire
# expect: silence


@cuda.jit
def kernel(data, flag, out):
    if cuda.blockIdx.x == 0:
        data[0] = 42
        store_release(address(flag, 0), uint32(1))
    else:
        while load_acquire(address(flag, 0)) == 0:
            pass
        out[0] = data[0]


out = np.zeros(1, np.int32)
kernel[2, 1](np.zeros(1, np.int32), np.zeros(1, np.uint32), out)
assert out[0] == 42

# %% plain flag
# expect: racecheck, write after read, (1) with (2)


@cuda.jit
def kernel(flag, out):
    if cuda.blockIdx.x == 0:
        out[0] = flag[0]  # (2)
    else:
        flag[0] = 1  # (1)


kernel[2, 1](np.zeros(1, np.int32), np.zeros(1, np.int32))

# %% lock around a counter
# expect: silence


@cuda.jit
def kernel(lock, count):
    if cuda.threadIdx.x == 0:
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:
            pass
        cuda.threadfence()
        count[0] += 1
        cuda.threadfence()
        cuda.atomic.exch(lock, 0, 0)


count = np.zeros(1, np.int32)
kernel[8, 32](np.zeros(1, np.int32), count)
assert count[0] == 8

# %% lock that is let go without a fence
# expect: racecheck, write after write, (1) with (1)


@cuda.jit
def kernel(lock, count):
    if cuda.threadIdx.x == 0:
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:
            pass
        count[0] += 1  # (1)
        cuda.atomic.exch(lock, 0, 0)


kernel[8, 32](np.zeros(1, np.int32), np.zeros(1, np.int32))

# %% grid without its barrier
# expect: racecheck, read after write, (1) with (2)


@cuda.jit
def kernel(x, tmp, out):
    i = cuda.grid(1)
    tmp[i] = 2 * x[i]  # (2)
    out[i] = tmp[N - 1 - i]  # (1)


kernel[4, 64](DATA, np.zeros_like(DATA), np.zeros_like(DATA))

# %% grid with its barrier
# expect: silence


@cuda.jit
def kernel(x, tmp, out):
    i = cuda.grid(1)
    tmp[i] = 2 * x[i]
    cuda.cg.this_grid().sync()
    out[i] = tmp[N - 1 - i]


out = np.zeros_like(DATA)
kernel[4, 64](DATA, np.zeros_like(DATA), out)
assert np.array_equal(out, 2 * DATA[::-1])

# %% one thread of a warp for all
# expect: racecheck, read after write, (1) with (2)


@cuda.jit
def kernel(slots, out):
    i = cuda.grid(1)
    if i % 32 == 0:
        slots[i // 32] = i  # (2)
    out[i] = slots[i // 32]  # (1)


kernel[1, 64](np.zeros(2, np.int32), np.zeros(64, np.int32))

# %% one thread of a warp for all, then syncwarp
# expect: silence


@cuda.jit
def kernel(slots, out):
    i = cuda.grid(1)
    if i % 32 == 0:
        slots[i // 32] = i
    cuda.syncwarp()
    out[i] = slots[i // 32]


out = np.zeros(64, np.int32)
kernel[1, 64](np.zeros(2, np.int32), out)
assert np.array_equal(out, np.arange(64) // 32 * 32)

# %% compaction with a counter
# expect: silence


@cuda.jit
def kernel(x, count, out):
    i = cuda.grid(1)
    if x[i] % 3 == 0:
        out[cuda.atomic.add(count, 0, 1)] = x[i]


count, out = np.zeros(1, np.int32), np.zeros_like(DATA)
kernel[4, 64](DATA, count, out)
assert count[0] == 86 and np.array_equal(np.sort(out[:86]), DATA[::3])

# %% neighbours of two bytes
# expect: silence


@cuda.jit
def kernel(out):
    i = cuda.grid(1)
    out[i] = i
    out[i] += 1


out = np.zeros(N, np.uint16)
kernel[4, 64](out)
assert np.array_equal(out, np.arange(1, N + 1))

# %% bool flags, one a thread
# expect: silence


@cuda.jit
def kernel(x, large):
    i = cuda.grid(1)
    large[i] = x[i] > 100


large = np.zeros(N, np.bool_)
kernel[8, 32](DATA, large)
assert large.sum() == N - 101

# %% grid-stride loop again and again on the same data
# expect: silence


@cuda.jit
def kernel(x):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        x[i] = x[i] * 0.5 + 1


x = cuda.to_device(np.ones(1000, np.float32))
for blocks in (4, 2, 8):
    kernel[blocks, 64](x)
assert np.allclose(x.copy_to_host(), 1.875)

# %% two lanes for one place in one instruction
# expect: racecheck, write after write, (1) with (1)


@cuda.jit
def kernel(out):
    i = cuda.grid(1)
    out[i // 2] = i  # (1)


kernel[1, 32](np.zeros(16, np.int32))

# %% scatter through a permutation
# expect: silence


@cuda.jit
def kernel(order, x, out):
    i = cuda.grid(1)
    out[order[i]] = x[i]


order = np.random.default_rng(0).permutation(N)
out = np.zeros_like(DATA)
kernel[4, 64](order, DATA, out)
assert np.array_equal(out[order], DATA)

# %% scatter through indexes that meet
# expect: racecheck, write after write, (1) with (1)


@cuda.jit
def kernel(order, x, out):
    i = cuda.grid(1)
    out[order[i]] = x[i]  # (1)


kernel[4, 64](np.arange(N) * 7 % 128, DATA, np.full(N, -1, np.float32))
