"""synccheck: barriers that not all reach, masks that name the wrong lanes, and what can never go on."""

import numpy as np
from numba import cuda, float32, int32, int64, uint32
from primitives import (
    bar_arrive, bar_sync, mbar_arrive, mbar_init, mbar_inval, mbar_test, mbar_test_parity, shared, shuffle_down, vote_ballot,
)  # fmt: skip

N = 64
DATA = np.arange(N, dtype=np.float32)
ALL = 0xFFFFFFFF

# %% barrier in a branch
# expect: synccheck, divergent barrier, (1)


@cuda.jit
def kernel(x):
    tile = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]
    if i < 16:
        cuda.syncthreads()  # (1)
        tile[i] += 1
    x[i] = tile[i]


kernel[1, N](DATA)

# %% barrier after a branch
# expect: silence


@cuda.jit
def kernel(x):
    tile = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]
    if i < 16:
        tile[i] += 1
    cuda.syncthreads()
    x[i] = tile[N - 1 - i]


x = DATA.copy()
kernel[1, N](x)
assert np.array_equal(x, (DATA + (DATA < 16))[::-1])

# %% barrier in a branch that all take
# expect: silence


@cuda.jit
def kernel(x, twice):
    tile = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]
    if twice:
        cuda.syncthreads()
        x[i] = tile[N - 1 - i]


x = DATA.copy()
kernel[1, N](x, True)
assert np.array_equal(x, DATA[::-1])

# %% a barrier in each branch
# expect: synccheck, divergent barrier, (2) with (1)


@cuda.jit
def kernel(x):
    i = cuda.threadIdx.x
    if i % 2 == 0:
        x[i] = 1
        cuda.syncthreads()  # (2)
        x[i] = 2
    else:
        x[i] = 3
        cuda.syncthreads()  # (1)
        x[i] = 4


kernel[1, N](DATA)

# %% barrier in a loop of different lengths
# expect: synccheck, divergent barrier, (1)


@cuda.jit
def kernel(x):
    i = cuda.threadIdx.x
    for k in range(i % 4 + 1):
        x[i] += k
        cuda.syncthreads()  # (1)
    x[i] = 0


kernel[1, 32](DATA)

# %% barrier in a loop of the same length for all
# expect: silence


@cuda.jit
def kernel(x, n):
    i = cuda.threadIdx.x
    for k in range(n):
        x[i] += k
        cuda.syncthreads()


x = np.zeros(N, np.float32)
kernel[1, N](x, 5)
assert (x == 10).all()

# %% some lanes leave the loop before the barrier
# expect: synccheck, divergent barrier, (1)


@cuda.jit
def kernel(x, n):
    i = cuda.threadIdx.x
    for k in range(n):
        if x[i] > 40:
            break
        x[i] += 1
        cuda.syncthreads()  # (1)
    x[i] = -x[i]


kernel[1, N](DATA, 4)

# %% all leave the loop together
# expect: silence


@cuda.jit
def kernel(x, n):
    i = cuda.threadIdx.x
    for k in range(n):
        x[i] += 1
        if cuda.syncthreads_or(int32(x[i] > 40)):
            break
    x[i] = -x[i]


x = DATA.copy()
kernel[1, N](x, 4)
assert np.array_equal(x, -(DATA + 1))

# %% early return before a barrier
# expect: silence


@cuda.jit
def kernel(x, n):
    i = cuda.threadIdx.x
    if i >= n:
        return
    x[i] += 1
    cuda.syncthreads()
    x[i] += 1


x = np.zeros(N, np.float32)
kernel[1, N](x, 41)
assert x.sum() == 82

# %% early return of whole warps
# expect: silence


@cuda.jit
def kernel(x):
    i = cuda.threadIdx.x
    if i < 32:
        return
    x[i] += 1
    cuda.syncthreads()
    x[i] += 1


x = np.zeros(96, np.float32)
kernel[1, 96](x)
assert x.sum() == 128

# %% barrier between early returns
# expect: synccheck, divergent barrier, (1)


@cuda.jit
def kernel(x, out):
    i = cuda.threadIdx.x
    if x[i] > 50:
        out[i] = 1
    else:
        cuda.syncthreads()  # (1)
        out[i] = 2
    out[i] += x[i]


kernel[1, N](DATA, np.zeros(N, np.float32))

# %% barrier in a function called by some
# expect: synccheck, divergent barrier, (1)


@cuda.jit(device=True)
def swap(tile, i):
    cuda.syncthreads()  # (1)
    return tile[i ^ 1]


@cuda.jit
def kernel(x):
    tile = cuda.shared.array(N, float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]
    if i % 32 < 20:
        x[i] = swap(tile, i)
    x[i] += 1


kernel[1, N](DATA)

# %% shuffle in a branch with a full mask
# expect: synccheck, missing lanes, (1) with (2)


@cuda.jit
def kernel(x):
    i = cuda.threadIdx.x
    v = x[i]
    if i < 16:
        v += cuda.shfl_down_sync(ALL, v, 8)  # (1)
        x[i] = v
    else:
        cuda.syncwarp()  # (2)


kernel[1, 32](DATA)

# %% shuffle in a branch with its own mask
# expect: silence


@cuda.jit
def kernel(x):
    i = cuda.threadIdx.x
    v = x[i]
    if i < 16:
        v = cuda.shfl_sync(0xFFFF, v, 15 - i)
    x[i] = v


x = DATA[:32].copy()
kernel[1, 32](x)
assert np.array_equal(x[:16], DATA[:16][::-1])

# %% lane that its mask does not name
# expect: synccheck, lane not in mask, (1)


@cuda.jit
def kernel(x):
    i = cuda.threadIdx.x
    x[i] = cuda.shfl_sync(0x0000FFFF, x[i], 0)  # (1)


kernel[1, 32](DATA)

# %% ballot that leaves lanes out
# expect: synccheck, lane not in mask, (1)


@cuda.jit
def kernel(x):
    i = cuda.threadIdx.x
    x[i] = cuda.ballot_sync(0xFFFFFFFE, x[i] > 3)  # (1)


kernel[1, 32](DATA)

# %% ballot in a branch
# expect: synccheck, missing lanes, (1) with (2)


@cuda.jit
def kernel(x):
    i = cuda.threadIdx.x
    if i % 2:
        x[i] = cuda.ballot_sync(ALL, x[i] > 3)  # (2)
    else:
        x[i] = cuda.shfl_sync(ALL, x[i], 0)  # (1)


kernel[1, 32](DATA)

# %% ballot of all
# expect: silence


@cuda.jit
def kernel(x, out):
    i = cuda.threadIdx.x
    mask = cuda.ballot_sync(ALL, x[i] > 3)
    if x[i] > 3:
        out[i] = cuda.popc(mask & ((1 << (i % 32)) - 1))


out = np.full(32, -1, np.int32)
kernel[1, 32](DATA, out)
assert np.array_equal(out[4:], np.arange(28))

# %% vote through a mask from activemask
# expect: silence


@cuda.jit
def kernel(x, out):
    i = cuda.threadIdx.x
    if x[i] > 20:
        mask = cuda.activemask()
        out[i] = cuda.popc(cuda.ballot_sync(mask, True))


out = np.zeros(32, np.int32)
kernel[1, 32](DATA, out)
assert (out[21:] == 11).all()

# %% syncwarp that leaves the caller out
# expect: synccheck, lane not in mask, (1)


@cuda.jit
def kernel(x):
    i = cuda.threadIdx.x
    x[i] += 1
    cuda.syncwarp(0xFF)  # (1)
    x[i] += 1


kernel[1, 32](DATA)

# %% syncwarp for lanes that wait elsewhere
# expect: synccheck, missing lanes, (1) with (2)


@cuda.jit
def kernel(x):
    i = cuda.threadIdx.x
    if i < 8:
        x[i] = 1
        cuda.syncwarp(0xFFFF)  # (1)
        x[i] = 2
    else:
        x[i] = 3
        cuda.syncthreads()  # (2)
        x[i] = 4


kernel[1, 32](DATA)

# %% shuffle after lanes have returned
# expect: silence


@cuda.jit
def kernel(x):
    i = cuda.threadIdx.x
    if i >= 16:
        return
    x[i] = cuda.shfl_sync(ALL, x[i], 15 - i)


x = DATA[:32].copy()
kernel[1, 32](x)
assert np.array_equal(x[:16], DATA[:16][::-1])

# %% match of equal values
# expect: silence


@cuda.jit
def kernel(x, out):
    i = cuda.threadIdx.x
    mask = cuda.match_any_sync(ALL, int32(x[i]) % 4)
    out[i] = cuda.popc(mask)


out = np.zeros(32, np.int32)
kernel[1, 32](DATA, out)
assert (out == 8).all()

# %% match in a branch
# expect: synccheck, missing lanes, (1) with (2)


@cuda.jit
def kernel(x, out):
    i = cuda.threadIdx.x
    if x[i] > 4:
        out[i] = cuda.match_any_sync(ALL, int32(x[i]))  # (2)
    else:
        cuda.syncwarp()  # (1)


kernel[1, 32](DATA, np.zeros(32, np.int64))

# %% number of threads that is no multiple of a warp
# expect: synccheck, barrier count, (1)


@cuda.jit
def kernel(x):
    i = cuda.threadIdx.x
    x[i] += 1
    bar_sync(1, 48)  # (1)
    x[i] += 1


kernel[1, N](DATA)

# %% two numbers of threads for one barrier
# expect: synccheck, barrier count, (1)


@cuda.jit
def kernel(x):
    i = cuda.threadIdx.x
    if i < 32:
        bar_sync(1, 64)
    else:
        bar_sync(1, 96)  # (1)
    x[i] += 1


kernel[1, 96](np.zeros(96, np.float32))

# %% barrier for more threads than come
# expect: synccheck, deadlock, (1)


@cuda.jit
def kernel(x):
    i = cuda.threadIdx.x
    x[i] += 1
    bar_sync(1, 128)  # (1)
    x[i] += 1


kernel[1, N](DATA)

# %% two halves wait at two barriers
# expect: synccheck, deadlock, (1) with (2)


@cuda.jit
def kernel(x):
    i = cuda.threadIdx.x
    if i < 32:
        bar_sync(1, 64)  # (1)
    else:
        bar_sync(2, 64)  # (2)
    x[i] += 1


kernel[1, N](DATA)

# %% two halves at barriers of their own
# expect: silence


@cuda.jit
def kernel(x):
    i = cuda.threadIdx.x
    if i < 32:
        bar_sync(1, 32)
    else:
        bar_sync(2, 32)
    x[i] += 1


kernel[1, N](DATA)

# %% consumer that nobody signals
# expect: synccheck, deadlock, (1)


@cuda.jit
def kernel(x):
    i = cuda.threadIdx.x
    if i < 32:
        x[i] += 1
        bar_arrive(2, 64)
    else:
        bar_sync(1, 64)  # (1)
        x[i] += 1


kernel[1, N](DATA)

# %% mbarrier that nobody initialised
# expect: synccheck, mbarrier, (1), says "not initialised"


@cuda.jit
def kernel(x):
    bar = cuda.shared.array(1, int64)
    i = cuda.threadIdx.x
    mbar_arrive(shared(bar, 0))  # (1)
    x[i] += 1


kernel[1, 32](DATA)

# %% mbarrier that is initialised twice
# expect: synccheck, mbarrier, (1), says "in use"


@cuda.jit
def kernel(x):
    bar = cuda.shared.array(1, int64)
    i = cuda.threadIdx.x
    if i == 0:
        mbar_init(shared(bar, 0), 32)
        mbar_init(shared(bar, 0), 32)  # (1)
    cuda.syncthreads()
    token = mbar_arrive(shared(bar, 0))
    while mbar_test(shared(bar, 0), token) == 0:
        pass
    x[i] += 1


kernel[1, 32](DATA)

# %% mbarrier initialised by every thread
# expect: synccheck, mbarrier, (1), says "in use"


@cuda.jit
def kernel(x):
    bar = cuda.shared.array(1, int64)
    i = cuda.threadIdx.x
    mbar_init(shared(bar, 0), 32)  # (1)
    cuda.syncthreads()
    token = mbar_arrive(shared(bar, 0))
    while mbar_test(shared(bar, 0), token) == 0:
        pass
    x[i] += 1


kernel[1, 32](DATA)

# %% arrival in the next phase, unseen
# expect: synccheck, mbarrier, (1), says "before any thread has waited"


@cuda.jit
def kernel(x):
    bar = cuda.shared.array(1, int64)
    i = cuda.threadIdx.x
    if i == 0:
        mbar_init(shared(bar, 0), N)
    cuda.syncthreads()
    mbar_arrive(shared(bar, 0))
    cuda.syncthreads()
    token = mbar_arrive(shared(bar, 0))  # (1)
    while mbar_test(shared(bar, 0), token) == 0:
        pass
    x[i] += 1


kernel[1, N](DATA)

# %% mbarrier invalidated and initialised again
# expect: silence


@cuda.jit
def kernel(x):
    bar = cuda.shared.array(1, int64)
    i = cuda.threadIdx.x
    for _ in range(2):
        if i == 0:
            mbar_init(shared(bar, 0), 32)
        cuda.syncthreads()
        token = mbar_arrive(shared(bar, 0))
        while mbar_test(shared(bar, 0), token) == 0:
            pass
        cuda.syncthreads()
        if i == 0:
            mbar_inval(shared(bar, 0))
        cuda.syncthreads()
    x[i] += 1


kernel[1, 32](DATA)

# %% more arrivals than the mbarrier counts
# expect: synccheck, mbarrier, (1), says "before any thread has waited"


@cuda.jit
def kernel(x):
    bar = cuda.shared.array(1, int64)
    i = cuda.threadIdx.x
    if i == 0:
        mbar_init(shared(bar, 0), 40)
    cuda.syncthreads()
    token = mbar_arrive(shared(bar, 0))  # (1)
    mbar_test(shared(bar, 0), token)
    x[i] += 1


kernel[1, N](DATA)

# %% fewer arrivals than the mbarrier counts
# expect: synccheck, deadlock, (1), says "mbarrier"


@cuda.jit
def kernel(x):
    bar = cuda.shared.array(1, int64)
    i = cuda.threadIdx.x
    if i == 0:
        mbar_init(shared(bar, 0), N + 1)
    cuda.syncthreads()
    token = mbar_arrive(shared(bar, 0))
    while mbar_test(shared(bar, 0), token) == 0:  # (1)
        pass
    x[i] += 1


kernel[1, N](DATA)

# %% wait for the wrong parity
# expect: synccheck, deadlock, (1) with (2), says "mbarrier"


@cuda.jit
def kernel(x):
    bar = cuda.shared.array(1, int64)
    i = cuda.threadIdx.x
    if i == 0:
        mbar_init(shared(bar, 0), N)
    cuda.syncthreads()
    mbar_arrive(shared(bar, 0))
    while mbar_test_parity(shared(bar, 0), uint32(1)) == 0:  # (2)
        pass
    cuda.syncthreads()  # (1)
    while mbar_test_parity(shared(bar, 0), uint32(1)) == 0:
        pass
    x[i] += 1


kernel[1, N](DATA)

# %% phases of an mbarrier
# expect: silence


@cuda.jit
def kernel(x):
    bar = cuda.shared.array(1, int64)
    i = cuda.threadIdx.x
    if i == 0:
        mbar_init(shared(bar, 0), N)
    cuda.syncthreads()
    for k in range(5):
        mbar_arrive(shared(bar, 0))
        while mbar_test_parity(shared(bar, 0), uint32(k & 1)) == 0:
            pass
    x[i] += 1


x = np.zeros(N, np.float32)
kernel[1, N](x)
assert (x == 1).all()

# %% flag that nobody raises
# expect: synccheck, deadlock, (1)


@cuda.jit
def kernel(flag):
    while cuda.atomic.add(flag, 0, 0) == 0:  # (1)
        pass


kernel[2, 32](np.zeros(1, np.int32))

# %% lock that is never let go
# expect: synccheck, deadlock, (1)


@cuda.jit
def kernel(lock, x):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:  # (1)
        pass
    x[0] += 1


kernel[2, 1](np.zeros(1, np.int32), np.zeros(1, np.int32))

# %% two locks in two orders
# expect: synccheck, deadlock, (1) with (2)


@cuda.jit
def kernel(locks, x):
    block = cuda.blockIdx.x
    if block == 0:
        cuda.atomic.cas(locks, 0, 0, 1)
        while cuda.atomic.add(locks, 2, 0) == 0:
            pass
        while cuda.atomic.cas(locks, 1, 0, 1) != 0:  # (1)
            pass
    else:
        cuda.atomic.cas(locks, 1, 0, 1)
        cuda.atomic.add(locks, 2, 1)
        while cuda.atomic.cas(locks, 0, 0, 1) != 0:  # (2)
            pass
    cuda.atomic.add(x, 0, 1)


kernel[2, 1](np.zeros(3, np.int32), np.zeros(1, np.int32))

# %% lock within a warp
# expect: silence


@cuda.jit
def kernel(lock, x):
    done = False
    while not done:
        if cuda.atomic.cas(lock, 0, 0, 1) == 0:
            cuda.threadfence()
            x[0] += 1
            cuda.threadfence()
            cuda.atomic.exch(lock, 0, 0)
            done = True


x = np.zeros(1, np.int32)
kernel[2, 64](np.zeros(1, np.int32), x)
assert x[0] == 128

# %% lock within a warp, taken in a loop of its own
# expect: silence


@cuda.jit
def kernel(lock, x):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    cuda.threadfence()
    x[0] += 1
    cuda.threadfence()
    cuda.atomic.exch(lock, 0, 0)


x = np.zeros(1, np.int32)
kernel[1, 32](np.zeros(1, np.int32), x)
assert x[0] == 32

# %% warps that wait for each other by flags
# expect: silence


@cuda.jit
def kernel(flags, out):
    i = cuda.threadIdx.x
    warp = i // 32
    if i % 32 == 0:
        if warp > 0:
            while cuda.atomic.add(flags, warp - 1, 0) == 0:
                pass
        cuda.threadfence()
        out[warp] = out[warp - 1] + 1 if warp > 0 else 1
        cuda.threadfence()
        cuda.atomic.add(flags, warp, 1)


out = np.zeros(4, np.int32)
kernel[1, 128](np.zeros(4, np.int32), out)
assert np.array_equal(out, [1, 2, 3, 4])

# %% blocks that wait for later ones
# expect: silence


@cuda.jit
def kernel(flags):
    block = cuda.blockIdx.x
    if block < 7:
        while cuda.atomic.add(flags, block + 1, 0) == 0:
            pass
    cuda.atomic.add(flags, block, 1)


flags = np.zeros(8, np.int32)
kernel[8, 1](flags)
assert (flags == 1).all()

# %% flag raised behind a barrier at which its waiter is expected
# expect: synccheck, deadlock, (2) with (1)


@cuda.jit
def kernel(flag, x):
    i = cuda.threadIdx.x
    if i >= 32:
        while cuda.atomic.add(flag, 0, 0) == 0:  # (1)
            pass
    cuda.syncthreads()  # (2)
    if i == 0:
        cuda.atomic.add(flag, 0, 1)
    x[i] = 1


kernel[1, N](np.zeros(1, np.int32), np.zeros(N, np.int32))

# %% grid barrier that a block leaves out
# expect: synccheck, deadlock, (1)


@cuda.jit
def kernel(x):
    if cuda.blockIdx.x < 3:
        cuda.cg.this_grid().sync()  # (1)
    x[cuda.grid(1)] = 1


kernel[4, 32](np.zeros(128, np.float32))

# %% grid barrier
# expect: silence


@cuda.jit
def kernel(x):
    grid = cuda.cg.this_grid()
    for k in range(3):
        x[cuda.grid(1)] += 1
        grid.sync()


x = np.zeros(128, np.float32)
kernel[4, 32](x)
assert (x == 3).all()

# %% lane numbers from an inline shuffle in a branch
# expect: synccheck, missing lanes, (1) with (2)


@cuda.jit
def kernel(x):
    i = cuda.threadIdx.x
    if i < 20:
        x[i] = shuffle_down(uint32(x[i]), uint32(1), uint32(ALL))  # (1)
    else:
        x[i] = vote_ballot(uint32(1), uint32(ALL))  # (2)


kernel[1, 32](DATA)

# %% endless loop over a barrier
# expect: synccheck, deadlock, (1), says "nothing but barriers has happened"


@cuda.jit
def kernel(go):
    while go[0] == 0:  # (1)
        cuda.syncthreads()


kernel[1, 64](np.zeros(1, np.int32))

# %% endless loop over a barrier that other threads of the warp have left
# expect: synccheck, divergent barrier, (2) with (1)


@cuda.jit
def kernel(turns, out):
    i = cuda.grid(1)
    n = 0
    while n < turns[i]:
        cuda.syncthreads()  # (1)
        n += 1 if turns[i] < 9 else 0
    cuda.syncthreads()  # (2)
    out[i] = n


kernel[1, 64](np.arange(64, dtype=np.int32), np.zeros(64, np.int32))

# %% long loop over a barrier
# expect: silence


@cuda.jit
def kernel(turns, out):
    n = 0
    while n < turns[0]:
        cuda.syncthreads()
        n += 1
    out[cuda.grid(1)] = n


out = np.zeros(64, np.int32)
kernel[1, 64](np.full(1, 20_000, np.int32), out)
assert (out == 20_000).all()

# %% mbarrier used with no barrier after its initialisation
# expect: synccheck, mbarrier, (1) with (2), says "put cuda.syncthreads() after mbarrier.init"
N = 64


@cuda.jit
def kernel(out):
    bar = cuda.shared.array(1, int64)
    t = cuda.threadIdx.x
    if t == 0:
        mbar_init(shared(bar, 0), N)  # (2)
    token = mbar_arrive(shared(bar, 0))  # (1)
    while mbar_test(shared(bar, 0), token) == 0:
        pass
    out[t] = t


kernel[1, N](np.zeros(N, np.int32))

# %% mbarrier used after a syncwarp by the one warp that there is
# expect: silence


@cuda.jit
def kernel(out):
    bar = cuda.shared.array(1, int64)
    t = cuda.threadIdx.x
    if t == 0:
        mbar_init(shared(bar, 0), 32)
    cuda.syncwarp()
    token = mbar_arrive(shared(bar, 0))
    while mbar_test(shared(bar, 0), token) == 0:
        pass
    out[t] = t


kernel[1, 32](np.zeros(32, np.int32))

# %% mbarrier at which one arrival too few is counted
# expect: synccheck, mbarrier, (1) with (1), says "too low a count"
WARPS = 4


@cuda.jit
def kernel(out):
    bar = cuda.shared.array(1, int64)
    t = cuda.threadIdx.x
    if t == 0:
        mbar_init(shared(bar, 0), WARPS - 1)
    cuda.syncthreads()
    if t % 32 == 0:
        token = mbar_arrive(shared(bar, 0))  # (1)
        while mbar_test(shared(bar, 0), token) == 0:
            pass
    cuda.syncwarp()
    out[t] = t


kernel[1, 32 * WARPS](np.zeros(32 * WARPS, np.int32))

# %% mbarrier at which one lane of each warp arrives, twice
# expect: silence
WARPS = 4


@cuda.jit
def kernel(out):
    bar = cuda.shared.array(1, int64)
    t = cuda.threadIdx.x
    if t == 0:
        mbar_init(shared(bar, 0), WARPS)
    cuda.syncthreads()
    for k in range(5):
        if t % 32 == 0:
            mbar_arrive(shared(bar, 0))
        while mbar_test_parity(shared(bar, 0), uint32(k & 1)) == 0:
            pass
        cuda.syncwarp()
    out[t] = t


kernel[1, 32 * WARPS](np.zeros(32 * WARPS, np.int32))

# %% two mbarriers, full and empty, between a warp that fills and three that use
# expect: silence
WARPS = 4


@cuda.jit
def kernel(out):
    bars = cuda.shared.array(2, int64)
    buffer = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    warp, lane = t // 32, t % 32
    if t == 0:
        mbar_init(shared(bars, 0), 32)
        mbar_init(shared(bars, 1), 32 * (WARPS - 1))
    cuda.syncthreads()
    total = 0
    for k in range(6):
        if warp == 0:
            if k > 0:
                while mbar_test_parity(shared(bars, 1), uint32((k - 1) & 1)) == 0:
                    pass
            buffer[lane] = k
            mbar_arrive(shared(bars, 0))
        else:
            while mbar_test_parity(shared(bars, 0), uint32(k & 1)) == 0:
                pass
            total += buffer[31 - lane]
            mbar_arrive(shared(bars, 1))
    out[t] = total


out = np.zeros(32 * WARPS, np.int32)
kernel[1, 32 * WARPS](out)
assert (out[32:] == 15).all()

# %% two mbarriers, the one that says empty counting a warp too few
# expect: synccheck, mbarrier, (1) with (1), says "too low a count"
WARPS = 4


@cuda.jit
def kernel(out):
    bars = cuda.shared.array(2, int64)
    buffer = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    warp, lane = t // 32, t % 32
    if t == 0:
        mbar_init(shared(bars, 0), 32)
        mbar_init(shared(bars, 1), 32 * (WARPS - 2))
    cuda.syncthreads()
    total = 0
    for k in range(6):
        if warp == 0:
            if k > 0:
                while mbar_test_parity(shared(bars, 1), uint32((k - 1) & 1)) == 0:
                    pass
            buffer[lane] = k
            mbar_arrive(shared(bars, 0))
        else:
            while mbar_test_parity(shared(bars, 0), uint32(k & 1)) == 0:
                pass
            total += buffer[31 - lane]
            mbar_arrive(shared(bars, 1))  # (1)
    out[t] = total


kernel[1, 32 * WARPS](np.zeros(32 * WARPS, np.int32))

# %% named barriers that hand knowledge on from warp to warp
# expect: silence
N = 96


@cuda.jit
def kernel(out):
    buffer = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    warp, lane = t // 32, t % 32
    if warp == 0:
        buffer[lane] = lane
        bar_sync(uint32(1), uint32(64))
    elif warp == 1:
        bar_sync(uint32(1), uint32(64))
        bar_sync(uint32(2), uint32(64))
    else:
        bar_sync(uint32(2), uint32(64))
        out[lane] = buffer[31 - lane]


out = np.zeros(32, np.int32)
kernel[1, N](out)
assert (out == np.arange(32)[::-1]).all()

# %% loop whose count is the same for all threads of a block
# expect: silence


@cuda.jit
def kernel(counts, out):
    tile = cuda.shared.array(64, int32)
    t, total = cuda.threadIdx.x, 0
    for k in range(counts[cuda.blockIdx.x]):
        tile[t] = t + k
        cuda.syncthreads()
        total += tile[63 - t]
        cuda.syncthreads()
    out[cuda.grid(1)] = total


out = np.zeros(2 * N, np.int32)
kernel[2, N](np.array([0, 3], np.int32), out)
assert out[:N].tolist() == [0] * N and out[N:].tolist() == [3 * (63 - t) + 3 for t in range(N)]

# %% barrier in a branch that a whole block takes
# expect: silence


@cuda.jit
def kernel(out):
    tile = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    if cuda.blockIdx.x == 1:
        tile[t] = t
        cuda.syncthreads()
        out[t] = tile[63 - t]


out = np.zeros(N, np.int32)
kernel[2, N](out)
assert (out == np.arange(N)[::-1]).all()
