"""racecheck in shared memory: a barrier that is missing, and programs in which none is."""

import numpy as np
from numba import cuda, float32, int32, uint8

N = 128
M = N + 2

DATA = np.arange(N, dtype=np.float32)

# %% read before the others have written
# expect: racecheck, read after write, (1) with (2)


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]  # (2)
    out[i] = tile[N - 1 - i]  # (1)


kernel[1, N](DATA, np.zeros_like(DATA))

# %% read after a barrier
# expect: silence


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]
    cuda.syncthreads()
    out[i] = tile[N - 1 - i]


out = np.zeros_like(DATA)
kernel[1, N](DATA, out)
assert np.array_equal(out, DATA[::-1])

# %% tree without a barrier in its loop
# expect: racecheck, read after write, (1) with (1), says "put cuda.syncthreads() at the end of the loop's body"


@cuda.jit
def kernel(x, out):
    part = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    part[i] = x[i]
    cuda.syncthreads()
    step = N // 2
    while step > 0:
        if i < step:
            part[i] += part[i + step]  # (1)
        step //= 2
    if i == 0:
        out[0] = part[0]


kernel[1, N](DATA, np.zeros(1, np.float32))

# %% tree without any barrier
# expect: racecheck, read after write, (1) with (2), says "put cuda.syncthreads() between lines"
# expect: racecheck, read after write, (1) with (1), says "put cuda.syncthreads() at the end of the loop's body"


@cuda.jit
def kernel(x, out):
    part = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    part[i] = x[i]  # (2)
    step = N // 2
    while step > 0:
        if i < step:
            part[i] += part[i + step]  # (1)
        step //= 2
    if i == 0:
        out[0] = part[0]


kernel[1, N](DATA, np.zeros(1, np.float32))

# %% a neighbour of the warp, then one of another warp
# expect: racecheck, read after write, (1) with (2), says "put cuda.syncthreads() between lines"


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]  # (2)
    near = tile[i ^ 1]
    out[i] = near + tile[N - 1 - i]  # (1)


kernel[1, N](DATA, np.zeros_like(DATA))

# %% tree with a barrier in its loop
# expect: silence


@cuda.jit
def kernel(x, out):
    part = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    part[i] = x[i]
    cuda.syncthreads()
    step = N // 2
    while step > 0:
        if i < step:
            part[i] += part[i + step]
        cuda.syncthreads()
        step //= 2
    if i == 0:
        out[0] = part[0]


out = np.zeros(1, np.float32)
kernel[1, N](DATA, out)
assert out[0] == DATA.sum()

# %% tree without the barrier before it
# expect: racecheck, read after write, (1) with (2)


@cuda.jit
def kernel(x, out):
    part = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    part[i] = x[i]  # (2)
    step = N // 2
    while step > 0:
        if i < step:
            part[i] += part[i + step]  # (1)
        cuda.syncthreads()
        step //= 2
    if i == 0:
        out[0] = part[0]


kernel[1, N](DATA, np.zeros(1, np.float32))

# %% tree that grows outwards
# expect: silence


@cuda.jit
def kernel(x, out):
    part = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    part[i] = x[i]
    step = 1
    while step < N:
        cuda.syncthreads()
        if i % (2 * step) == 0:
            part[i] += part[i + step]
        step *= 2
    if i == 0:
        out[0] = part[0]


out = np.zeros(1, np.float32)
kernel[1, N](DATA, out)
assert out[0] == DATA.sum()

# %% next tile over one that is still read
# expect: racecheck, write after read, (1) with (2)


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(64, float32)
    i = cuda.threadIdx.x
    total = float32(0)
    for part in range(2):
        tile[i] = x[64 * part + i]  # (1)
        cuda.syncthreads()
        for k in range(64):
            total += tile[k]  # (2)
    out[i] = total


kernel[1, 64](DATA, np.zeros(64, np.float32))

# %% next tile after a second barrier
# expect: silence


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(64, float32)
    i = cuda.threadIdx.x
    total = float32(0)
    for part in range(2):
        tile[i] = x[64 * part + i]
        cuda.syncthreads()
        for k in range(64):
            total += tile[k]
        cuda.syncthreads()
    out[i] = total


out = np.zeros(64, np.float32)
kernel[1, 64](DATA, out)
assert (out == DATA.sum()).all()

# %% scan in place
# expect: racecheck, write after read, (1) with (1)


@cuda.jit
def kernel(x, out):
    s = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    s[i] = x[i]
    cuda.syncthreads()
    step = 1
    while step < N:
        if i >= step:
            s[i] += s[i - step]  # (1)
        cuda.syncthreads()
        step *= 2
    out[i] = s[i]


kernel[1, N](DATA, np.zeros_like(DATA))

# %% scan with the read and the write apart
# expect: silence


@cuda.jit
def kernel(x, out):
    s = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    s[i] = x[i]
    cuda.syncthreads()
    step = 1
    while step < N:
        left = float32(0)
        if i >= step:
            left = s[i - step]
        cuda.syncthreads()
        s[i] += left
        cuda.syncthreads()
        step *= 2
    out[i] = s[i]


out = np.zeros_like(DATA)
kernel[1, N](DATA, out)
assert np.array_equal(out, np.cumsum(DATA, dtype=np.float32))

# %% scan between two buffers
# expect: silence


@cuda.jit
def kernel(x, out):
    s = cuda.shared.array((2, N), float32)
    i = cuda.threadIdx.x
    at = 0
    s[0, i] = x[i]
    cuda.syncthreads()
    step = 1
    while step < N:
        if i >= step:
            s[1 - at, i] = s[at, i] + s[at, i - step]
        else:
            s[1 - at, i] = s[at, i]
        at = 1 - at
        cuda.syncthreads()
        step *= 2
    out[i] = s[at, i]


out = np.zeros_like(DATA)
kernel[1, N](DATA, out)
assert np.array_equal(out, np.cumsum(DATA, dtype=np.float32))

# %% everybody writes the result
# expect: racecheck, write after write, (1) with (1)


@cuda.jit
def kernel(x, out):
    best = cuda.shared.array(1, float32)
    i = cuda.threadIdx.x
    best[0] = x[i]  # (1)
    cuda.syncthreads()
    if i == 0:
        out[0] = best[0]


kernel[1, N](DATA, np.zeros(1, np.float32))

# %% everybody writes the same value
# expect: silence


@cuda.jit
def kernel(x, out):
    found = cuda.shared.array(1, int32)
    i = cuda.threadIdx.x
    if i == 0:
        found[0] = 0
    cuda.syncthreads()
    if x[i] > 100:
        found[0] = 1
    cuda.syncthreads()
    if i == 0:
        out[0] = found[0]


out = np.zeros(1, np.int32)
kernel[1, N](DATA, out)
assert out[0] == 1

# %% two threads of different warps for a slot
# expect: racecheck, write after write, (1) with (1)


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(64, float32)
    i = cuda.threadIdx.x
    tile[i % 64] = x[i]  # (1)
    cuda.syncthreads()
    if i < 64:
        out[i] = tile[i]


kernel[1, N](DATA, np.zeros(64, np.float32))

# %% histogram without atomics
# expect: racecheck, write after write, (1) with (1), says "let one thread write there, or use an atomic"


@cuda.jit
def kernel(x, out):
    bins = cuda.shared.array(16, int32)
    i = cuda.threadIdx.x
    if i < 16:
        bins[i] = 0
    cuda.syncthreads()
    bins[int32(x[i]) % 16] += 1  # (1)
    cuda.syncthreads()
    if i < 16:
        out[i] = bins[i]


kernel[1, N](DATA, np.zeros(16, np.int32))

# %% histogram with atomics
# expect: silence


@cuda.jit
def kernel(x, out):
    bins = cuda.shared.array(16, int32)
    i = cuda.threadIdx.x
    if i < 16:
        bins[i] = 0
    cuda.syncthreads()
    cuda.atomic.add(bins, int32(x[i]) % 16, 1)
    cuda.syncthreads()
    if i < 16:
        cuda.atomic.add(out, i, bins[i])


out = np.zeros(16, np.int32)
kernel[2, N](DATA, out)
assert (out == 16).all()

# %% bins cleared without a barrier
# expect: racecheck, write after write, (1) with (2)


@cuda.jit
def kernel(x, out):
    bins = cuda.shared.array(64, int32)
    i = cuda.threadIdx.x
    if i < 64:
        bins[i] = 0  # (2)
    cuda.atomic.add(bins, int32(x[i] * 7) % 64, 1)  # (1)
    cuda.syncthreads()
    if i < 64:
        out[i] = bins[i]


kernel[1, N](DATA, np.zeros(64, np.int32))

# %% total read before the others have added
# expect: racecheck, read after write, (1) with (2)


@cuda.jit
def kernel(x, out):
    total = cuda.shared.array(1, float32)
    i = cuda.threadIdx.x
    if i == 0:
        total[0] = 0
    cuda.syncthreads()
    cuda.atomic.add(total, 0, x[i])  # (2)
    if i == N - 1:
        out[0] = total[0]  # (1)


kernel[1, N](DATA, np.zeros(1, np.float32))

# %% thread 0's value read by the other warps
# expect: racecheck, read after write, (1) with (2)


@cuda.jit
def kernel(x, out):
    first = cuda.shared.array(1, float32)
    i = cuda.threadIdx.x
    if i == 0:
        first[0] = x[0]  # (2)
    out[i] = first[0]  # (1)


kernel[1, N](DATA, np.zeros_like(DATA))

# %% thread 0's value read after a barrier
# expect: silence


@cuda.jit
def kernel(x, out):
    first = cuda.shared.array(1, float32)
    i = cuda.threadIdx.x
    if i == 0:
        first[0] = x[0]
    cuda.syncthreads()
    out[i] = first[0] + i


out = np.zeros_like(DATA)
kernel[1, N](DATA, out)
assert np.array_equal(out, DATA)

# %% neighbour in the warp without syncwarp
# expect: racecheck, read after write, (1) with (2), says "put cuda.syncwarp() between lines"


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(32, float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]  # (2)
    out[i] = tile[31 - i]  # (1)


kernel[1, 32](DATA, np.zeros(32, np.float32))

# %% neighbour in the warp after syncwarp
# expect: silence


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]
    cuda.syncwarp()
    out[i] = tile[i ^ 31]


out = np.zeros_like(DATA)
kernel[1, N](DATA, out)
assert np.array_equal(out, DATA.reshape(-1, 32)[:, ::-1].ravel())

# %% last steps of a tree without syncwarp
# expect: racecheck, read after write, (1) with (1), says "put cuda.syncwarp() at the end of the loop's body"


@cuda.jit
def kernel(x, out):
    part = cuda.shared.array(32, float32)
    i = cuda.threadIdx.x
    part[i] = x[i]
    cuda.syncwarp()
    step = 16
    while step > 0:
        if i < step:
            part[i] += part[i + step]  # (1)
        step //= 2
    if i == 0:
        out[0] = part[0]


kernel[1, 32](DATA, np.zeros(1, np.float32))

# %% last steps of a tree with syncwarp
# expect: silence


@cuda.jit
def kernel(x, out):
    part = cuda.shared.array(32, float32)
    i = cuda.threadIdx.x
    part[i] = x[i]
    cuda.syncwarp()
    step = 16
    while step > 0:
        if i < step:
            part[i] += part[i + step]
        cuda.syncwarp()
        step //= 2
    if i == 0:
        out[0] = part[0]


out = np.zeros(1, np.float32)
kernel[1, 32](DATA, out)
assert out[0] == DATA[:32].sum()

# %% syncwarp where a barrier is needed
# expect: racecheck, read after write, (1) with (2), says "put cuda.syncthreads() between lines"


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]  # (2)
    cuda.syncwarp()
    out[i] = tile[(i + 1) % N]  # (1)


kernel[1, N](DATA, np.zeros_like(DATA))

# %% syncwarp of half a warp each
# expect: silence


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(32, float32)
    i = cuda.threadIdx.x
    if i < 16:
        tile[i] = x[i]
        cuda.syncwarp(0xFFFF)
        out[i] = tile[15 - i]
    else:
        tile[i] = x[i]
        cuda.syncwarp(0xFFFF0000)
        out[i] = tile[47 - i]


out = np.zeros(32, np.float32)
kernel[1, 32](DATA, out)
assert np.array_equal(out, DATA[:32].reshape(2, 16)[:, ::-1].ravel())

# %% neighbour from the other half of a warp
# expect: racecheck, read after write, (1) with (2)


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(32, float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]  # (2)
    if i < 16:
        cuda.syncwarp(0xFFFF)
        out[i] = tile[31 - i]  # (1)


kernel[1, 32](DATA, np.zeros(32, np.float32))

# %% transposed tile without a barrier
# expect: racecheck, read after write, (1) with (2)


@cuda.jit
def kernel(a, out):
    tile = cuda.shared.array((16, 17), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    tile[y, x] = a[y, x]  # (2)
    out[y, x] = tile[x, y]  # (1)


a = np.arange(256, dtype=np.float32).reshape(16, 16)
kernel[1, (16, 16)](a, np.zeros_like(a))

# %% transposed tile with a barrier
# expect: silence


@cuda.jit
def kernel(a, out):
    tile = cuda.shared.array((16, 17), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    tile[y, x] = a[y, x]
    cuda.syncthreads()
    out[y, x] = tile[x, y]


a = np.arange(256, dtype=np.float32).reshape(16, 16)
out = np.zeros_like(a)
kernel[1, (16, 16)](a, out)
assert np.array_equal(out, a.T)

# %% halo without a barrier
# expect: racecheck, read after write, (1) with (2)


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(M, float32)
    i = cuda.threadIdx.x
    tile[i + 1] = x[i]  # (2)
    if i == 0:
        tile[0] = 0
    if i == N - 1:
        tile[N + 1] = 0
    out[i] = tile[i] + tile[i + 1] + tile[i + 2]  # (1)


kernel[1, N](DATA, np.zeros_like(DATA))

# %% halo that another thread loads
# expect: silence


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(M, float32)
    i = cuda.threadIdx.x
    tile[i + 1] = x[i]
    if i == 0:
        tile[0] = 0
    if i == 1:
        tile[N + 1] = 0
    cuda.syncthreads()
    out[i] = tile[i] + tile[i + 1] + tile[i + 2]


out = np.zeros_like(DATA)
kernel[1, N](DATA, out)
assert np.array_equal(out, np.convolve(DATA, [1, 1, 1], "same").astype(np.float32))

# %% neighbours of one byte
# expect: silence


@cuda.jit
def kernel(x, out):
    flags = cuda.shared.array(N, uint8)
    i = cuda.threadIdx.x
    flags[i] = x[i] > 64
    flags[i] += 1
    cuda.syncthreads()
    out[i] = flags[N - 1 - i]


out = np.zeros(N, np.uint8)
kernel[1, N](DATA, out)
assert np.array_equal(out, 1 + (DATA[::-1] > 64))

# %% neighbours of two bytes that are read as four
# expect: racecheck, read after write, (1) with (2)


@cuda.jit
def kernel(x, out):
    small = cuda.shared.array(64, np.uint16)
    i = cuda.threadIdx.x
    small[i] = i  # (2)
    if i < 32:
        out[i] = small[2 * i + 1]  # (1)


kernel[1, 64](DATA, np.zeros(64, np.int32))

# %% bytes of one word by two warps
# expect: racecheck, write after write, (1) with (1)


@cuda.jit
def kernel(out):
    flags = cuda.shared.array(32, uint8)
    i = cuda.threadIdx.x
    flags[i // 2] = i  # (1)
    cuda.syncthreads()
    if i < 32:
        out[i] = flags[i]


kernel[1, 64](np.zeros(64, np.uint8))

# %% dynamic arrays that overlap
# expect: racecheck, write after write, (1) with (2)


@cuda.jit
def kernel(x, out):
    a = cuda.shared.array(0, float32)
    b = cuda.shared.array(0, float32)
    i = cuda.threadIdx.x
    a[i] = x[i]  # (2)
    b[(i + 32) % N] = 2 * x[i]  # (1)
    cuda.syncthreads()
    out[i] = a[i] + b[i]


kernel[1, N, 0, 4 * N](DATA, np.zeros_like(DATA))

# %% dynamic arrays side by side
# expect: silence


@cuda.jit
def kernel(x, out):
    a = cuda.shared.array(0, float32)[:N]
    b = cuda.shared.array(0, float32)[N : 2 * N]
    i = cuda.threadIdx.x
    a[i] = x[i]
    b[i] = 2 * x[i]
    cuda.syncthreads()
    out[i] = a[N - 1 - i] + b[N - 1 - i]


out = np.zeros_like(DATA)
kernel[1, N, 0, 8 * N](DATA, out)
assert np.array_equal(out, 3 * DATA[::-1])

# %% unrolled reads of one line
# expect: racecheck, read after write, (1) with (2)


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]  # (2)
    total = float32(0)
    for k in range(8):
        total += tile[(i + 16 * k) % N]  # (1)
    out[i] = total


kernel[1, N](DATA, np.zeros_like(DATA))

# %% two missing barriers
# expect: racecheck, read after write, (1) with (2)
# expect: racecheck, read after write, (3) with (4)


@cuda.jit
def kernel(x, out):
    a = cuda.shared.array(N, float32)
    b = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    a[i] = x[i]  # (2)
    b[i] = 2 * a[N - 1 - i]  # (1) (4)
    out[i] = b[(i + 32) % N]  # (3)


kernel[1, N](DATA, np.zeros_like(DATA))

# %% early return before a barrier
# expect: silence


@cuda.jit
def kernel(x, n):
    tile = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    if i >= n:
        return
    tile[i] = x[i]
    cuda.syncthreads()
    x[i] = tile[n - 1 - i]


x = DATA.copy()
kernel[1, N](x, 100)
assert np.array_equal(x[:100], DATA[:100][::-1])

# %% each thread its own column
# expect: silence


@cuda.jit
def kernel(x, out):
    own = cuda.shared.array((4, N), float32)
    i = cuda.threadIdx.x
    for k in range(4):
        own[k, i] = x[i] * k
    total = float32(0)
    for k in range(4):
        total += own[3 - k, i]
    out[i] = total


out = np.zeros_like(DATA)
kernel[1, N](DATA, out)
assert np.array_equal(out, 6 * DATA)

# %% struct-like strides
# expect: silence


@cuda.jit
def kernel(x, out):
    rows = cuda.shared.array((N, 3), float32)
    i = cuda.threadIdx.x
    for k in range(3):
        rows[i, k] = x[i] + k
    cuda.syncthreads()
    j = (i + 1) % N
    out[i] = rows[j, 0] + rows[j, 1] + rows[j, 2]


out = np.zeros_like(DATA)
kernel[1, N](DATA, out)
assert np.array_equal(out, np.roll(3 * DATA + 3, -1))

# %% warp sums and then a sum of them
# expect: silence


@cuda.jit
def kernel(x, out):
    sums = cuda.shared.array(4, float32)
    i = cuda.threadIdx.x
    value = x[i]
    step = 16
    while step > 0:
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, step)
        step //= 2
    if i % 32 == 0:
        sums[i // 32] = value
    cuda.syncthreads()
    if i == 0:
        out[0] = sums[0] + sums[1] + sums[2] + sums[3]


out = np.zeros(1, np.float32)
kernel[1, N](DATA, out)
assert out[0] == DATA.sum()

# %% warp sums read without a barrier
# expect: racecheck, read after write, (1) with (2)


@cuda.jit
def kernel(x, out):
    sums = cuda.shared.array(4, float32)
    i = cuda.threadIdx.x
    value = x[i]
    step = 16
    while step > 0:
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, step)
        step //= 2
    if i % 32 == 0:
        sums[i // 32] = value  # (2)
    if i == 96:
        out[0] = sums[0] + sums[1] + sums[2] + sums[3]  # (1)


kernel[1, N](DATA, np.zeros(1, np.float32))

# %% barrier with a vote
# expect: silence


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]
    large = cuda.syncthreads_count(int32(x[i] >= 100))
    out[i] = tile[N - 1 - i] + large


out = np.zeros_like(DATA)
kernel[1, N](DATA, out)
assert np.array_equal(out, DATA[::-1] + 28)
