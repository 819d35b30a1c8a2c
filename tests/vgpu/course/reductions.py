"""Reductions, scans, histograms, sorting, softmax: shared memory, shuffles, votes and atomics."""

import math

import numpy as np
from numba import cuda
from numba.cuda.types import float32, int32, uint32

from course import case, floats, ints

THREADS = 256
ALL = 0xFFFFFFFF


@cuda.jit
def reduce_shared_kernel(x, out):
    s = cuda.shared.array(THREADS, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    s[t] = x[i] if i < x.size else float32(0)
    cuda.syncthreads()
    k = THREADS // 2
    while k > 0:
        if t < k:
            s[t] += s[t + k]
        cuda.syncthreads()
        k //= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


@case()
def reduction_in_shared_memory():
    x = floats(1000)
    out = cuda.device_array(4, np.float32)
    reduce_shared_kernel[4, THREADS](x, out)
    expected = np.pad(x, (0, 24)).reshape(4, THREADS).sum(1)
    np.testing.assert_allclose(out.copy_to_host(), expected, rtol=1e-4, atol=1e-4)


@cuda.jit
def reduce_shuffle_kernel(x, out):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    v = float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        v += x[i]
    o = 16
    while o > 0:
        v += cuda.shfl_down_sync(ALL, v, o)
        o >>= 1
    if t % 32 == 0:
        s[t // 32] = v
    cuda.syncthreads()
    if t < 32:
        v = s[t] if t < cuda.blockDim.x // 32 else float32(0)
        for k in (16, 8, 4, 2, 1):
            v += cuda.shfl_xor_sync(ALL, v, k)
        if t == 0:
            cuda.atomic.add(out, 0, v)


@case()
def reduction_by_shuffles():
    x = floats(3000)
    out = cuda.to_device(np.zeros(1, np.float32))
    reduce_shuffle_kernel[3, THREADS](x, out)
    np.testing.assert_allclose(out.copy_to_host()[0], x.sum(dtype=np.float64), rtol=1e-4, atol=1e-3)


@cuda.jit
def histogram_global_kernel(x, h):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(h, x[i], 1)


@case()
def histogram_in_global_memory():
    x = ints(1000, high=20)
    h = cuda.to_device(np.zeros(20, np.int32))
    histogram_global_kernel[4, THREADS](x, h)
    np.testing.assert_array_equal(h.copy_to_host(), np.bincount(x, minlength=20))


@cuda.jit
def histogram_shared_kernel(x, h):
    s = cuda.shared.array(256, int32)
    t = cuda.threadIdx.x
    s[t] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(s, x[i], 1)
    cuda.syncthreads()
    cuda.atomic.add(h, t, s[t])


@case()
def histogram_in_shared_memory():
    x = ints(5000, high=256, dtype=np.uint8)
    h = cuda.to_device(np.zeros(256, np.int32))
    histogram_shared_kernel[4, 256](x, h)
    np.testing.assert_array_equal(h.copy_to_host(), np.bincount(x, minlength=256))


@cuda.jit
def scan_kernel(x, y):
    s = cuda.shared.array((2, THREADS), int32)
    t = cuda.threadIdx.x
    p = 0
    s[0, t] = x[cuda.grid(1)]
    cuda.syncthreads()
    d = 1
    while d < THREADS:
        q = 1 - p
        s[q, t] = s[p, t] + s[p, t - d] if t >= d else s[p, t]
        p = q
        d *= 2
        cuda.syncthreads()
    y[cuda.grid(1)] = s[p, t]


@case()
def scan_with_two_buffers():
    x = ints(2 * THREADS)
    y = cuda.device_array_like(x)
    scan_kernel[2, THREADS](x, y)
    np.testing.assert_array_equal(y.copy_to_host(), np.cumsum(x.reshape(2, THREADS), 1).ravel())


@cuda.jit
def scan_shuffle_kernel(x, y, sums):
    w = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    lane = cuda.laneid
    warp = t >> 5
    v = x[cuda.grid(1)]
    d = 1
    while d < 32:
        u = cuda.shfl_up_sync(ALL, v, d)
        if lane >= d:
            v += u
        d <<= 1
    if lane == 31:
        w[warp] = v
    cuda.syncthreads()
    if warp == 0:
        s = w[lane]
        d = 1
        while d < 32:
            u = cuda.shfl_up_sync(ALL, s, d)
            if lane >= d:
                s += u
            d <<= 1
        w[lane] = s
    cuda.syncthreads()
    if warp > 0:
        v += w[warp - 1]
    y[cuda.grid(1)] = v
    if t == cuda.blockDim.x - 1:
        sums[cuda.blockIdx.x] = v


@case()
def scan_by_shuffles():
    x = floats(2048)
    y, sums = cuda.device_array_like(x), cuda.device_array(2, np.float32)
    scan_shuffle_kernel[2, 1024](x, y, sums)
    expected = np.cumsum(x.reshape(2, 1024), 1, dtype=np.float64)
    np.testing.assert_allclose(y.copy_to_host(), expected.ravel(), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(sums.copy_to_host(), expected[:, -1], rtol=1e-4, atol=1e-4)


@case(finds=("initcheck",))
def scan_by_shuffles_with_too_few_warps():
    """The first warp reads 32 partial sums where 8 warps have written 8."""
    x = floats(256)
    scan_shuffle_kernel[1, 256](x, cuda.device_array_like(x), cuda.device_array(1, np.float32))
    cuda.synchronize()


@cuda.jit
def compact_kernel(x, y, count):
    i = cuda.grid(1)
    keep = i < x.size and x[i] > 0
    m = cuda.ballot_sync(ALL, keep)
    base = 0
    if cuda.laneid == 0:
        base = cuda.atomic.add(count, 0, cuda.popc(m))
    base = cuda.shfl_sync(ALL, base, 0)
    if keep:
        y[base + cuda.popc(m & cuda.lanemask_lt())] = x[i]


@case()
def compaction_by_ballot():
    x = ints(500, low=-50, high=50)
    y, count = cuda.to_device(np.zeros(500, np.int32)), cuda.to_device(np.zeros(1, np.int32))
    compact_kernel[2, 256](x, y, count)
    kept = x[x > 0]
    assert count.copy_to_host()[0] == kept.size
    np.testing.assert_array_equal(np.sort(y.copy_to_host()[: kept.size]), np.sort(kept))


def softmax_function(x, y):
    s = cuda.shared.array(256, float32)
    r = cuda.blockIdx.x
    t = cuda.threadIdx.x
    n = x.shape[1]
    m = float32(-math.inf)
    for j in range(t, n, 256):
        m = max(m, x[r, j])
    s[t] = m
    cuda.syncthreads()
    k = 128
    while k > 0:
        if t < k:
            s[t] = max(s[t], s[t + k])
        cuda.syncthreads()
        k >>= 1
    m = s[0]
    cuda.syncthreads()
    z = float32(0)
    for j in range(t, n, 256):
        z += math.exp(x[r, j] - m)
    s[t] = z
    cuda.syncthreads()
    k = 128
    while k > 0:
        if t < k:
            s[t] += s[t + k]
        cuda.syncthreads()
        k >>= 1
    z = s[0]
    for j in range(t, n, 256):
        y[r, j] = math.exp(x[r, j] - m) / z


def check_softmax(kernel, tolerance):
    x = floats(3, 400, low=-4, high=4)
    y = cuda.device_array_like(x)
    kernel[3, 256](x, y)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(y.copy_to_host(), e / e.sum(1, keepdims=True), rtol=tolerance)


@case()
def softmax():
    check_softmax(cuda.jit(softmax_function), 1e-5)


@case()
def softmax_with_fast_math():
    check_softmax(cuda.jit(fastmath=True)(softmax_function), 1e-4)


@cuda.jit
def layer_norm_kernel(x, gain, bias, y):
    s = cuda.shared.array(32, float32)
    r = cuda.blockIdx.x
    t = cuda.threadIdx.x
    n = x.shape[1]
    a = float32(0)
    q = float32(0)
    for j in range(t, n, cuda.blockDim.x):
        v = x[r, j]
        a += v
        q += v * v
    for o in (16, 8, 4, 2, 1):
        a += cuda.shfl_down_sync(ALL, a, o)
        q += cuda.shfl_down_sync(ALL, q, o)
    if t == 0:
        s[0] = a / n
        s[1] = q / n
    cuda.syncthreads()
    mean = s[0]
    scale = float32(1) / math.sqrt(s[1] - mean * mean + float32(1e-5))
    for j in range(t, n, cuda.blockDim.x):
        y[r, j] = (x[r, j] - mean) * scale * gain[j] + bias[j]


@case()
def layer_norm():
    x, gain, bias = floats(4, 100), floats(100, high=2), floats(100)
    y = cuda.device_array_like(x)
    layer_norm_kernel[4, 32](x, gain, bias, y)
    expected = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * gain + bias
    np.testing.assert_allclose(y.copy_to_host(), expected, rtol=1e-3, atol=1e-5)


@cuda.jit
def bitonic_kernel(a):
    s = cuda.shared.array(512, int32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    cuda.syncthreads()
    k = 2
    while k <= 512:
        j = k >> 1
        while j > 0:
            p = t ^ j
            if p > t:
                rising = (t & k) == 0
                if (s[t] > s[p]) == rising:
                    kept = s[t]
                    s[t] = s[p]
                    s[p] = kept
            cuda.syncthreads()
            j >>= 1
        k <<= 1
    a[t] = s[t]


@case()
def bitonic_sort():
    a = ints(512, low=-10000, high=10000)
    out = cuda.to_device(a)
    bitonic_kernel[1, 512](out)
    np.testing.assert_array_equal(out.copy_to_host(), np.sort(a))


@cuda.jit
def atomics_kernel(x, f, i, u, n, d):
    t = cuda.threadIdx.x
    cuda.atomic.add(f, t, x[t])
    cuda.atomic.max(f, 64, x[t])
    cuda.atomic.min(i, 0, t - 10)
    cuda.atomic.max(i, 1, 3 * t)
    cuda.atomic.sub(i, 2, 2)
    cuda.atomic.and_(u, 0, uint32(~(1 << (t & 7))))
    cuda.atomic.or_(u, 1, uint32(1 << (t & 31)))
    cuda.atomic.xor(u, 2, uint32(t))
    cuda.atomic.inc(u, 3, uint32(6))
    cuda.atomic.dec(u, 4, uint32(6))
    cuda.atomic.exch(i, 3, 9)
    cuda.atomic.cas(i, 4, 0, t + 1)
    cuda.atomic.compare_and_swap(i[5:], 0, 7)
    cuda.atomic.add(n, 0, 1)
    cuda.atomic.max(n, 1, t * 1000000007)
    cuda.atomic.add(d, 0, 0.5)


@case()
def all_atomics():
    x = floats(64)
    f = cuda.to_device(np.concatenate([np.ones(64), [-9]]).astype(np.float32))
    i, u = cuda.to_device(np.zeros(6, np.int32)), cuda.to_device(np.array([~0, 0, 0, 0, 3], np.int64).astype(np.uint32))
    n, d = cuda.to_device(np.zeros(2, np.int64)), cuda.to_device(np.zeros(1))
    atomics_kernel[1, 64](x, f, i, u, n, d)
    np.testing.assert_array_equal(f.copy_to_host(), np.append(1 + x, x.max()))
    got = i.copy_to_host()
    np.testing.assert_array_equal(got[[0, 1, 2, 3, 5]], [-10, 189, -128, 9, 7])
    assert 1 <= got[4] <= 64
    # 64 increments modulo 7 from 0; 64 decrements modulo 7 from 3
    np.testing.assert_array_equal(u.copy_to_host(), [0xFFFFFF00, 0xFFFFFFFF, 0, 64 % 7, (3 - 64) % 7])
    np.testing.assert_array_equal(n.copy_to_host(), [64, 63 * 1000000007])
    assert d.copy_to_host()[0] == 32


@cuda.jit
def votes_kernel(x, y):
    i = cuda.grid(1)
    v = x[i]
    positive = v > 0
    y[0, i] = cuda.all_sync(ALL, positive)
    y[1, i] = cuda.any_sync(ALL, positive)
    y[2, i] = cuda.eq_sync(ALL, positive)
    y[3, i] = cuda.match_any_sync(ALL, v)
    same, every = cuda.match_all_sync(ALL, v)
    y[4, i] = same
    y[5, i] = every
    y[6, i] = cuda.activemask()
    y[7, i] = cuda.syncthreads_count(int32(positive))
    y[8, i] = cuda.syncthreads_and(int32(positive))
    y[9, i] = cuda.syncthreads_or(int32(positive))
    cuda.syncwarp()


@case()
def votes():
    x = np.concatenate([np.full(32, 5), ints(32, low=-2, high=3)]).astype(np.int32)
    y = cuda.device_array((10, 64), np.uint32)
    votes_kernel[1, 64](x, y)
    got = y.copy_to_host()
    for warp in range(2):
        lanes = slice(32 * warp, 32 * warp + 32)
        v = x[lanes]
        positive, equal = v > 0, v.min() == v.max()
        expected = [positive.all(), positive.any(), positive.all() or not positive.any()]
        np.testing.assert_array_equal(got[:3, lanes], np.repeat(np.array(expected)[:, None], 32, 1))
        masks = [int(sum(1 << k for k in range(32) if v[k] == value)) for value in v]
        np.testing.assert_array_equal(got[3, lanes], masks)
        np.testing.assert_array_equal(got[4:6, lanes], np.repeat([[ALL * equal], [equal]], 32, 1))
    np.testing.assert_array_equal(got[6], ALL)
    np.testing.assert_array_equal(got[7], (x > 0).sum())
    np.testing.assert_array_equal(got[8], (x > 0).all())
    np.testing.assert_array_equal(got[9], (x > 0).any())
