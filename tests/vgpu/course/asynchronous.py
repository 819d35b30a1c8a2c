"""Asynchronous copies, mbarriers, named barriers, clusters, fences, the grid's barrier, clocks."""

import numpy as np
from numba import cuda
from numba.cuda.types import float32, uint32, uint64

from course import case, floats, ptx


@cuda.jit
def double_buffer_kernel(a, b, c):
    sa = cuda.shared.array((2, 32, 32), float32, 16)
    sb = cuda.shared.array((2, 32, 32), float32, 16)
    t = uint32(cuda.threadIdx.x)
    r = t >> uint32(3)
    c4 = (t & uint32(7)) << uint32(2)
    row = cuda.blockIdx.y * 32
    col = cuda.blockIdx.x * 32
    tiles = a.shape[1] // 32
    ptx.copy_16(ptx.shared_address(sa, (0, r, c4)), ptx.global_address(a, (row + r, c4)))
    ptx.copy_16(ptx.shared_address(sb, (0, r, c4)), ptx.global_address(b, (r, col + c4)))
    ptx.commit()
    s0 = float32(0)
    s1 = float32(0)
    s2 = float32(0)
    s3 = float32(0)
    for k in range(tiles):
        now = uint32(k) & uint32(1)
        then = now ^ uint32(1)
        if k + 1 < tiles:
            at = (k + 1) * 32
            ptx.copy_16(ptx.shared_address(sa, (then, r, c4)), ptx.global_address(a, (row + r, at + c4)))
            ptx.copy_16(ptx.shared_address(sb, (then, r, c4)), ptx.global_address(b, (at + r, col + c4)))
        ptx.commit()
        ptx.wait_1()
        cuda.syncthreads()
        for j in range(32):
            v = sa[now, r, j]
            s0 += v * sb[now, j, c4]
            s1 += v * sb[now, j, c4 + 1]
            s2 += v * sb[now, j, c4 + 2]
            s3 += v * sb[now, j, c4 + 3]
        cuda.syncthreads()
    c[row + r, col + c4] = s0
    c[row + r, col + c4 + 1] = s1
    c[row + r, col + c4 + 2] = s2
    c[row + r, col + c4 + 3] = s3


@case()
def matmul_with_two_buffers():
    a, b = floats(64, 96), floats(96, 64, high=2)
    c = cuda.device_array((64, 64), np.float32)
    double_buffer_kernel[(2, 2), 256](cuda.to_device(a), cuda.to_device(b), c)
    np.testing.assert_allclose(c.copy_to_host(), a @ b, rtol=1e-4, atol=1e-4)


@cuda.jit
def four_stage_kernel(x, y, n):
    s = cuda.shared.array((4, 256), float32, 16)
    t = uint32(cuda.threadIdx.x)
    base = cuda.blockIdx.x * n * 256
    for k in range(3):
        if k < n:
            ptx.copy_4(ptx.shared_address(s, (uint32(k), t)), ptx.global_address(x, base + k * 256 + t))
        ptx.commit()
    total = float32(0)
    for k in range(n):
        ptx.wait_2()
        cuda.syncthreads()
        total += s[uint32(k) & uint32(3), uint32(255) - t]
        if k + 3 < n:
            slot = ptx.shared_address(s, (uint32(k + 3) & uint32(3), t))
            ptx.copy_4_of(slot, ptx.global_address(x, base + (k + 3) * 256 + t), uint32(4))
        ptx.commit()
    y[cuda.grid(1)] = total


@case()
def pipeline_of_four_stages():
    x = floats(2, 7, 256)
    y = cuda.device_array(512, np.float32)
    four_stage_kernel[2, 256](cuda.to_device(x.ravel()), y, 7)
    np.testing.assert_allclose(y.copy_to_host(), x.sum(1)[:, ::-1].ravel(), rtol=1e-4, atol=1e-5)


@cuda.jit
def bulk_pipeline_kernel(x, y, n):
    s = cuda.shared.array((2, 1024), float32, 128)
    bars = cuda.shared.array(4, uint64)  # full 0, full 1, empty 0, empty 1
    t = uint32(cuda.threadIdx.x)
    if t == 0:
        for q in range(2):
            ptx.mbarrier_init(ptx.shared_address(bars, q), uint32(1))
            ptx.mbarrier_init(ptx.shared_address(bars, 2 + q), uint32(256))
        ptx.fence_mbarrier_init()
    cuda.syncthreads()
    base = cuda.blockIdx.x * n * 1024
    if t >= uint32(256):
        if t == uint32(256):
            for k in range(n):
                slot = uint32(k) & uint32(1)
                phase = (uint32(k) >> uint32(1)) & uint32(1)
                while ptx.mbarrier_done(ptx.shared_address(bars, uint32(2) + slot), phase ^ uint32(1)) == 0:
                    pass
                full = ptx.shared_address(bars, slot)
                ptx.mbarrier_expect(full, uint32(4096))
                place = ptx.shared_address(s, (slot, uint32(0)))
                ptx.bulk_load(place, ptx.global_address(x, base + k * 1024), uint32(4096), full)
    else:
        total = float32(0)
        for k in range(n):
            slot = uint32(k) & uint32(1)
            phase = (uint32(k) >> uint32(1)) & uint32(1)
            while ptx.mbarrier_done(ptx.shared_address(bars, slot), phase) == 0:
                pass
            for j in range(4):
                total += s[slot, t + uint32(256 * j)]
            ptx.mbarrier_arrive(ptx.shared_address(bars, uint32(2) + slot))
        y[cuda.blockIdx.x * 256 + t] = total


@case(hopper=True)
def bulk_copies_and_mbarriers():
    x = floats(2, 5, 4, 256)
    y = cuda.device_array(512, np.float32)
    bulk_pipeline_kernel[2, 288](cuda.to_device(x.ravel()), y, 5)
    np.testing.assert_allclose(y.copy_to_host(), x.sum((1, 2)).ravel(), rtol=1e-4, atol=1e-5)


@cuda.jit
def bulk_store_kernel(x, y):
    s = cuda.shared.array(1024, float32, 128)
    t = cuda.threadIdx.x
    for j in range(4):
        s[t + 256 * j] = x[cuda.blockIdx.x * 1024 + t + 256 * j]
    ptx.fence_async()
    cuda.syncthreads()
    if t == 0:
        place = ptx.global_address(y, cuda.blockIdx.x * 1024)
        ptx.bulk_store(place, ptx.shared_address(s, 0), uint32(4096))
        ptx.bulk_commit()
        ptx.bulk_wait_read()


@case(hopper=True)
def bulk_store():
    x = floats(2048)
    y = cuda.device_array_like(x)
    bulk_store_kernel[2, 256](x, y)
    np.testing.assert_array_equal(y.copy_to_host(), x)


@cuda.jit
def named_barrier_kernel(x, y):
    s = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    if t < 128:
        s[t] = x[cuda.blockIdx.x * 128 + t]
        cuda.threadfence_block()
        ptx.barrier_arrive(uint32(1), uint32(256))
    else:
        ptx.barrier_sync(uint32(1), uint32(256))
        y[cuda.blockIdx.x * 128 + t - 128] = s[255 - t]


@case()
def warps_with_roles_and_a_named_barrier():
    x = floats(256)
    y = cuda.device_array_like(x)
    named_barrier_kernel[2, 256](x, y)
    np.testing.assert_array_equal(y.copy_to_host(), x.reshape(2, 128)[:, ::-1].ravel())


@cuda.jit
def cluster_kernel(x, y):
    s = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    ptx.cluster_arrive()
    ptx.cluster_wait()
    other = (ptx.cluster_rank() + uint32(1)) % ptx.cluster_size()
    y[cuda.grid(1)] = ptx.load_cluster(ptx.map_rank(ptx.shared_address(s, 127 - t), other))
    ptx.cluster_arrive()
    ptx.cluster_wait()


@case(hopper=True)
def shared_memory_of_a_cluster():
    """A launch without a cluster's size has clusters of one block."""
    x = floats(256)
    y = cuda.device_array_like(x)
    cluster_kernel[2, 128](x, y)
    np.testing.assert_array_equal(y.copy_to_host(), x.reshape(2, 128)[:, ::-1].ravel())


@cuda.jit
def flag_kernel(flag, y):
    if cuda.grid(1) == 0:
        y[0] = 1
        cuda.threadfence()
        cuda.atomic.exch(flag, 0, 1)
    else:
        while cuda.atomic.add(flag, 0, 0) == 0:
            cuda.nanosleep(100)
        cuda.threadfence()
        y[cuda.grid(1)] = y[0]
    cuda.threadfence_system()


@case()
def waiting_for_another_block():
    flag, y = cuda.to_device(np.zeros(1, np.int32)), cuda.to_device(np.zeros(96, np.float32))
    flag_kernel[3, 32](flag, y)
    np.testing.assert_array_equal(y.copy_to_host(), np.ones(96))


@cuda.jit
def grid_barrier_kernel(x):
    g = cuda.cg.this_grid()
    c = cuda.grid(1)
    for r in range(1, x.shape[0]):
        x[r, c] = x[r - 1, x.shape[1] - c - 1] + 1
        g.sync()


@case()
def barrier_of_the_grid():
    x = np.zeros((5, 256), np.float32)
    x[0] = floats(256)
    out = cuda.to_device(x)
    grid_barrier_kernel[4, 64](out)
    for r in range(1, 5):
        x[r] = x[r - 1, ::-1] + 1
    np.testing.assert_array_equal(out.copy_to_host(), x)


@cuda.jit
def clocks_kernel(y):
    before = ptx.clock()
    y[0] = ptx.clock() - before
    y[1] = ptx.sm()
    y[2] = ptx.global_timer()


@case()
def clocks():
    y = cuda.device_array(3, np.int64)
    clocks_kernel[1, 1](y)
    elapsed, sm, timer = y.copy_to_host()
    assert elapsed > 0
    assert 0 <= sm < cuda.get_current_device().MULTIPROCESSOR_COUNT
    assert timer >= 0
