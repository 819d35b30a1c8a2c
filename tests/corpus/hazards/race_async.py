"""racecheck of asynchronous copies, named barriers and mbarriers: what is waited for, and by whom."""

import numpy as np
from numba import cuda, float32, int64, uint32
from primitives import (
    address, bar_arrive, bar_sync, commit, copy4, copy4_part, copy16, mbar_arrive, mbar_arrive_after_copies, mbar_init, mbar_test,
    shared, wait_0, wait_1, wait_2, wait_all,
)  # fmt: skip

N, M = 64, 256
DATA = np.arange(4 * N, dtype=np.float32)

# %% no wait
# expect: racecheck, missing wait, (1) with (2)


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    copy4(shared(tile, i), address(x, i))  # (2)
    commit()
    cuda.syncthreads()
    out[i] = tile[N - 1 - i]  # (1)


kernel[1, N](DATA, np.zeros(N, np.float32))

# %% wait and barrier
# expect: silence


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    copy4(shared(tile, i), address(x, i))
    commit()
    wait_0()
    cuda.syncthreads()
    out[i] = tile[N - 1 - i]


out = np.zeros(N, np.float32)
kernel[1, N](DATA, out)
assert np.array_equal(out, DATA[:N][::-1])

# %% wait_all in place of commit and wait
# expect: silence


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    copy4(shared(tile, i), address(x, i))
    wait_all()
    cuda.syncthreads()
    out[i] = tile[N - 1 - i]


out = np.zeros(N, np.float32)
kernel[1, N](DATA, out)
assert np.array_equal(out, DATA[:N][::-1])

# %% no barrier after the wait
# expect: racecheck, read after write, (1) with (2)


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    copy4(shared(tile, i), address(x, i))  # (2)
    commit()
    wait_0()
    out[i] = tile[N - 1 - i]  # (1)


kernel[1, N](DATA, np.zeros(N, np.float32))

# %% own element needs no barrier
# expect: silence


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    copy4(shared(tile, i), address(x, i))
    commit()
    wait_0()
    out[i] = 2 * tile[i]


out = np.zeros(N, np.float32)
kernel[1, N](DATA, out)
assert np.array_equal(out, 2 * DATA[:N])

# %% barrier before the wait
# expect: racecheck, read after write, (1) with (2)


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    copy4(shared(tile, i), address(x, i))  # (2)
    commit()
    cuda.syncthreads()
    wait_0()
    out[i] = tile[N - 1 - i]  # (1)


kernel[1, N](DATA, np.zeros(N, np.float32))

# %% no commit
# expect: racecheck, missing wait, (1) with (2)


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    copy4(shared(tile, i), address(x, i))  # (2)
    wait_0()
    cuda.syncthreads()
    out[i] = tile[N - 1 - i]  # (1)


kernel[1, N](DATA, np.zeros(N, np.float32))

# %% waits for one group too few
# expect: racecheck, missing wait, (1) with (2)


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array((2, N), float32)
    i = cuda.threadIdx.x
    copy4(shared(tile, (0, i)), address(x, i))
    commit()
    copy4(shared(tile, (1, i)), address(x, N + i))  # (2)
    commit()
    wait_1()
    cuda.syncthreads()
    out[i] = tile[0, N - 1 - i] + tile[1, N - 1 - i]  # (1)


kernel[1, N](DATA, np.zeros(N, np.float32))

# %% pipeline of two stages
# expect: silence


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array((2, N), float32)
    i = cuda.threadIdx.x
    copy4(shared(tile, (0, i)), address(x, i))
    commit()
    total = float32(0)
    for k in range(4):
        if k < 3:
            copy4(shared(tile, ((k + 1) % 2, i)), address(x, N * (k + 1) + i))
        commit()
        wait_1()
        cuda.syncthreads()
        total += tile[k % 2, N - 1 - i]
        cuda.syncthreads()
    out[i] = total


out = np.zeros(N, np.float32)
kernel[1, N](DATA, out)
assert np.array_equal(out, DATA.reshape(4, N).sum(0)[::-1])

# %% pipeline that fills the slot that is read
# expect: racecheck, write after read, (1) with (2)


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array((2, N), float32)
    i = cuda.threadIdx.x
    copy4(shared(tile, (0, i)), address(x, i))
    commit()
    total = float32(0)
    for k in range(4):
        if k < 3:
            copy4(shared(tile, ((k + 1) % 2, i)), address(x, N * (k + 1) + i))  # (1)
        commit()
        wait_1()
        cuda.syncthreads()
        total += tile[k % 2, N - 1 - i]  # (2)
    out[i] = total


kernel[1, N](DATA, np.zeros(N, np.float32))

# %% pipeline that waits for the wrong group
# expect: racecheck, missing wait, (1) with (2)


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array((4, N), float32)
    i = cuda.threadIdx.x
    for k in range(2):
        copy4(shared(tile, (k, i)), address(x, N * k + i))
        commit()
    total = float32(0)
    for k in range(4):
        if k < 2:
            copy4(shared(tile, (k + 2, i)), address(x, N * (k + 2) + i))  # (2)
            commit()
        wait_2()
        cuda.syncthreads()
        total += tile[k, N - 1 - i]  # (1)
        cuda.syncthreads()
    out[i] = total


kernel[1, N](DATA, np.zeros(N, np.float32))

# %% pipeline with empty groups at its end
# expect: silence


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array((4, N), float32)
    i = cuda.threadIdx.x
    for k in range(2):
        copy4(shared(tile, (k, i)), address(x, N * k + i))
        commit()
    total = float32(0)
    for k in range(4):
        if k < 2:
            copy4(shared(tile, (k + 2, i)), address(x, N * (k + 2) + i))
        commit()
        wait_2()
        cuda.syncthreads()
        total += tile[k, N - 1 - i]
    out[i] = total


out = np.zeros(N, np.float32)
kernel[1, N](DATA, out)
assert np.array_equal(out, DATA.reshape(4, N).sum(0)[::-1])

# %% source changed under the copy
# expect: racecheck, source changed, (1) with (2)


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    copy4(shared(tile, i), address(x, i))  # (1)
    commit()
    x[i] = -1
    wait_0()  # (2)
    cuda.syncthreads()
    out[i] = tile[N - 1 - i]


kernel[1, N](cuda.to_device(DATA), np.zeros(N, np.float32))

# %% source changed after the wait
# expect: silence


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    copy4(shared(tile, i), address(x, i))
    commit()
    wait_0()
    x[i] = -1
    cuda.syncthreads()
    out[i] = tile[N - 1 - i]


out = np.zeros(N, np.float32)
kernel[1, N](cuda.to_device(DATA), out)
assert np.array_equal(out, DATA[:N][::-1])

# %% written while a copy is under way
# expect: racecheck, missing wait, (1) with (2)


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    copy4(shared(tile, i), address(x, i))  # (2)
    commit()
    tile[i] = 0  # (1)
    wait_0()
    cuda.syncthreads()
    out[i] = tile[i]


kernel[1, N](DATA, np.zeros(N, np.float32))

# %% copy into what was just read
# expect: racecheck, write after read, (1) with (2)


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]
    cuda.syncthreads()
    out[i] = tile[N - 1 - i]  # (2)
    copy4(shared(tile, i), address(x, N + i))  # (1)
    commit()
    wait_0()
    cuda.syncthreads()
    out[i] += tile[N - 1 - i]


kernel[1, N](DATA, np.zeros(N, np.float32))

# %% two copies into one place
# expect: racecheck, write after write, (1) with (1)


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(32, float32)
    i = cuda.threadIdx.x
    copy4(shared(tile, i % 32), address(x, i))  # (1)
    commit()
    wait_0()
    cuda.syncthreads()
    out[i] = tile[i % 32]


kernel[1, N](DATA, np.zeros(N, np.float32))

# %% copies of 16 bytes and of a part
# expect: silence


@cuda.jit
def kernel(x, out, n):
    tile = cuda.shared.array(M, float32)
    i = cuda.threadIdx.x
    if i < 32:
        copy16(shared(tile, 4 * i), address(x, 4 * i))
    for k in range(2):
        at = 2 * N + 64 * k + i
        size = uint32(4) if at < n else uint32(0)
        copy4_part(shared(tile, at), address(x, min(int64(at), int64(n - 1))), size)
    commit()
    wait_0()
    cuda.syncthreads()
    for k in range(4):
        out[N * k + i] = tile[4 * N - 1 - N * k - i]


out = np.ones(4 * N, np.float32)
kernel[1, N](DATA, out, 200)
assert np.array_equal(out, np.where(DATA < 200, DATA, 0)[::-1])

# %% copies and a warp on its own
# expect: silence


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    copy4(shared(tile, i), address(x, i))
    wait_all()
    cuda.syncwarp()
    out[i] = tile[i ^ 31]


out = np.zeros(N, np.float32)
kernel[1, N](DATA, out)
assert np.array_equal(out, DATA[:N].reshape(2, 32)[:, ::-1].ravel())

# %% named barriers between a producer and a consumer
# expect: silence


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(32, float32)
    i = cuda.threadIdx.x
    if i < 32:
        for k in range(4):
            if k > 0:
                bar_sync(2, 64)
            tile[i] = x[32 * k + i]
            bar_arrive(1, 64)
    else:
        for k in range(4):
            bar_sync(1, 64)
            out[32 * k + i - 32] = tile[63 - i]
            if k < 3:
                bar_arrive(2, 64)


out = np.zeros(128, np.float32)
kernel[1, N](DATA, out)
assert np.array_equal(out, DATA[:128].reshape(4, 32)[:, ::-1].ravel())

# %% producer that does not wait for the consumer
# expect: racecheck, write after read, (1) with (2)


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(32, float32)
    i = cuda.threadIdx.x
    if i < 32:
        for k in range(2):
            tile[i] = x[32 * k + i]  # (1)
            bar_arrive(1, 64)
            bar_sync(3, 32)
    else:
        for k in range(2):
            bar_sync(1, 64)
            out[32 * k + i - 32] = tile[63 - i]  # (2)


kernel[1, N](DATA, np.zeros(128, np.float32))

# %% consumer that waits at the wrong barrier
# expect: racecheck, read after write, (1) with (2)


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(32, float32)
    i = cuda.threadIdx.x
    if i < 32:
        tile[i] = x[i]  # (2)
        bar_arrive(1, 64)
    else:
        bar_sync(2, 32)
        out[i - 32] = tile[63 - i]  # (1)
        bar_sync(1, 64)


kernel[1, N](DATA, np.zeros(32, np.float32))

# %% several consumers at named barriers
# expect: silence


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array((2, 32), float32)
    i = cuda.threadIdx.x
    warp, lane = i // 32, i % 32
    if warp == 0:
        for k in range(4):
            if k > 1:
                bar_sync(3 + k % 2, 128)
            tile[k % 2, lane] = x[32 * k + lane]
            bar_arrive(1 + k % 2, 128)
    else:
        for k in range(4):
            bar_sync(1 + k % 2, 128)
            out[warp - 1, 32 * k + lane] = tile[k % 2, 31 - lane]
            if k < 2:
                bar_arrive(3 + k % 2, 128)


out = np.zeros((3, 128), np.float32)
kernel[1, 128](DATA, out)
assert (out == DATA[:128].reshape(4, 32)[:, ::-1].ravel()).all()

# %% mbarrier between warps
# expect: silence


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(N, float32)
    bar = cuda.shared.array(1, int64)
    i = cuda.threadIdx.x
    if i == 0:
        mbar_init(shared(bar, 0), N)
    cuda.syncthreads()
    tile[i] = x[i]
    token = mbar_arrive(shared(bar, 0))
    while mbar_test(shared(bar, 0), token) == 0:
        pass
    out[i] = tile[N - 1 - i]


out = np.zeros(N, np.float32)
kernel[1, N](DATA, out)
assert np.array_equal(out, DATA[:N][::-1])

# %% arrival without a wait
# expect: racecheck, read after write, (1) with (2)


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(N, float32)
    bar = cuda.shared.array(1, int64)
    i = cuda.threadIdx.x
    if i == 0:
        mbar_init(shared(bar, 0), N)
    cuda.syncthreads()
    tile[i] = x[i]  # (2)
    mbar_arrive(shared(bar, 0))
    out[i] = tile[N - 1 - i]  # (1)


kernel[1, N](DATA, np.zeros(N, np.float32))

# %% arrival before the write
# expect: racecheck, read after write, (1) with (2)


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(N, float32)
    bar = cuda.shared.array(1, int64)
    i = cuda.threadIdx.x
    if i == 0:
        mbar_init(shared(bar, 0), N)
    cuda.syncthreads()
    token = mbar_arrive(shared(bar, 0))
    tile[i] = x[i]  # (2)
    while mbar_test(shared(bar, 0), token) == 0:
        pass
    out[i] = tile[N - 1 - i]  # (1)


kernel[1, N](DATA, np.zeros(N, np.float32))

# %% copies that an mbarrier counts
# expect: silence


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(N, float32)
    bar = cuda.shared.array(1, int64)
    i = cuda.threadIdx.x
    if i == 0:
        mbar_init(shared(bar, 0), 2 * N)
    cuda.syncthreads()
    copy4(shared(tile, i), address(x, i))
    mbar_arrive_after_copies(shared(bar, 0))
    token = mbar_arrive(shared(bar, 0))
    while mbar_test(shared(bar, 0), token) == 0:
        pass
    out[i] = tile[N - 1 - i]


out = np.zeros(N, np.float32)
kernel[1, N](DATA, out)
assert np.array_equal(out, DATA[:N][::-1])

# %% copies that no arrival waits for
# expect: racecheck, missing wait, (1) with (2)


@cuda.jit
def kernel(x, out):
    tile = cuda.shared.array(N, float32)
    bar = cuda.shared.array(1, int64)
    i = cuda.threadIdx.x
    if i == 0:
        mbar_init(shared(bar, 0), N)
    cuda.syncthreads()
    copy4(shared(tile, i), address(x, i))  # (2)
    token = mbar_arrive(shared(bar, 0))
    while mbar_test(shared(bar, 0), token) == 0:
        pass
    out[i] = tile[N - 1 - i]  # (1)


kernel[1, N](DATA, np.zeros(N, np.float32))
