"""Kernels with the kit's device functions: `grader run --device CARD kernels.py`; prints one line a kernel."""

import numpy as np
from numba import cuda, float32, uint64

from grader.kit import (
    barrier_arrive,
    barrier_sync,
    bulk_copy,
    cp_async,
    cp_async_arrive,
    cp_async_commit,
    cp_async_wait,
    cp_async_wait_all,
    cp_async_zfill,
    fence_async,
    load4,
    mbarrier_arrive,
    mbarrier_arrive_expect_tx,
    mbarrier_init,
    mbarrier_wait,
    store4,
)

N = 128
X = np.arange(1, N + 1, dtype=np.float32)


@cuda.jit
def two_groups(x, y):
    tile = cuda.shared.array((4, 32), float32, 16)
    t = cuda.threadIdx.x
    if t < 32:
        cp_async(tile, (t // 8, t % 8 * 4), x, 4 * t, 16)
    cp_async_commit()
    cp_async_commit()  # an empty group counts
    cp_async_wait(1)
    cuda.syncthreads()
    y[t] = tile[t // 32, t % 32]


@cuda.jit
def pairs(x, y):
    tile = cuda.shared.array(N, float32, 16)
    t = cuda.threadIdx.x
    if t < N // 2:
        cp_async(tile, 2 * t, x, 2 * t, 8)
    cp_async_wait_all()
    cuda.syncthreads()
    y[t] = tile[N - 1 - t]


@cuda.jit
def zero_filled(x, y):
    tile = cuda.shared.array(N, float32, 16)
    t = cuda.threadIdx.x
    inside = t < 100
    cp_async_zfill(tile, t, x, t if inside else 0, 4, 4 if inside else 0)
    cp_async_wait_all()
    y[t] = tile[t]


@cuda.jit
def wide(x, y):
    t = cuda.threadIdx.x
    if t < N // 4:
        a, b, c, d = load4(x, 4 * t)
        store4(y, 4 * t, (d, c, b, a))


@cuda.jit
def arrives_at_an_mbarrier(x, y):
    tile = cuda.shared.array(N, float32, 16)
    bars = cuda.shared.array(2, uint64)
    t = cuda.threadIdx.x
    if t == 0:
        mbarrier_init(bars, 0, N)
        mbarrier_init(bars, 1, N)
    cuda.syncthreads()
    cp_async(tile, t, x, t, 4)
    cp_async_arrive(bars, 0)
    mbarrier_wait(bars, 0, 0)
    v = tile[N - 1 - t]
    mbarrier_arrive(bars, 1)
    mbarrier_wait(bars, 1, 0)
    tile[t] = v
    y[t] = v


@cuda.jit
def named(x, y):
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    if t < 64:
        tile[t] = x[t]
        barrier_arrive(1, 128)
    else:
        barrier_sync(1, 128)
        y[t - 64] = tile[127 - t]


@cuda.jit
def bulk(x, y):
    tile = cuda.shared.array(N, float32, 128)
    bars = cuda.shared.array(1, uint64)
    t = cuda.threadIdx.x
    if t == 0:
        mbarrier_init(bars, 0, 1)
        fence_async()
    cuda.syncthreads()
    if t == 0:
        mbarrier_arrive_expect_tx(bars, 0, 4 * N)
        bulk_copy(tile, 0, x, 0, 4 * N, bars, 0)
    mbarrier_wait(bars, 0, 0)
    y[t] = tile[N - 1 - t]


EXPECTED = {
    two_groups: X,
    pairs: X[::-1],
    zero_filled: np.where(np.arange(N) < 100, X, 0),
    wide: X.reshape(-1, 4)[:, ::-1].ravel(),
    arrives_at_an_mbarrier: X[::-1],
    named: np.concatenate([X[63::-1], np.zeros(64)]),
}
if cuda.get_current_device().compute_capability >= (9, 0):
    EXPECTED[bulk] = X[::-1]

for kernel, want in EXPECTED.items():
    y = cuda.to_device(np.zeros(N, np.float32))
    kernel[1, N](cuda.to_device(X), y)
    print(kernel.__name__, "right" if np.array_equal(y.copy_to_host(), want) else "WRONG")
