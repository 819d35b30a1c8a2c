"""What several pieces of work use at once on the clock: SMs, memory, links; priorities; parts of a device."""

import itertools
import random

import numpy as np
import pytest
from cuda.bindings import driver as cu
from driver_support import alloc, call, stream
from numba import cuda, float32, int32

import grader.vgpu
from grader.vgpu.driver.clock import Engine, Resource, share

pytestmark = pytest.mark.filterwarnings("ignore::numba.core.errors.NumbaPerformanceWarning")


def test_work_that_finds_half_of_a_resource_taken_runs_at_half_its_speed():
    sms = Resource()
    assert share(0.0, 100.0, [(sms, 0.5)]) == (0.0, 100.0)
    assert share(0.0, 80.0, [(sms, 1.0)]) == (0.0, 130.0)  # 50 of 80 by 100, then at full speed
    assert share(0.0, 10.0, [(sms, 0.1)]) == (130.0, 140.0)


def test_the_scarcest_resource_sets_the_speed():
    sms, memory = Resource(), Resource()
    share(0.0, 100.0, [(sms, 0.25), (memory, 0.9)])
    start, end = share(0.0, 30.0, [(sms, 0.5), (memory, 0.5)])
    assert start == 0 and end == pytest.approx(100 + 30 - 100 * 0.1 / 0.5)


def test_work_that_was_put_first_leaves_a_hole_for_what_comes_before_it():
    sms = Resource()
    assert share(50.0, 20.0, [(sms, 1.0)]) == (50.0, 70.0)
    assert share(0.0, 60.0, [(sms, 1.0)]) == (0.0, 80.0)  # 50, then a pause of 20, then 10


def test_nothing_is_used_twice():
    choose = random.Random(3)
    resource, pieces = Resource(), []
    for _ in range(25):
        ready, us, part = choose.uniform(0, 300), choose.uniform(1, 40), choose.choice([0.2, 0.5, 1.0])
        start, end = share(ready, us, [(resource, part)])
        assert start >= ready and end - start >= us * 0.999999
        pieces.append(us * part)
    uses = resource.since(0.0)
    for start, end in itertools.pairwise(sorted({t for use in uses for t in use[:2]})):
        assert sum(part for a, b, part in uses if a < end and b > start) <= 1 + 1e-6
    used = sum(part * (b - a) for a, b, part in uses)
    assert used == pytest.approx(sum(pieces))


def test_work_that_takes_long_is_not_forgotten_for_many_that_do_not():
    sms = Resource()
    assert share(0.0, 1e5, [(sms, 0.75)]) == (0.0, 1e5)
    for k in range(500):
        assert share(10.0 * k, 5.0, [(sms, 0.25)]) == (10.0 * k, 10.0 * k + 5)
    assert share(5000.0, 5.0, [(sms, 0.5)]) == (5000.0, 5010.0)  # a quarter is left


def test_an_engine_fills_its_gaps_and_forgets_what_is_long_ago():
    engine = Engine()
    engine.book(10, 20)
    engine.book(30, 40)
    assert (engine.start(0, 10), engine.start(0, 11), engine.start(12, 10), engine.start(15, 100)) == (0, 40, 20, 40)
    for k in range(200):
        engine.book(50 + 2 * k, 51 + 2 * k)
    assert engine.start(0, 1) > 100


@cuda.jit
def spin(out, n):
    i = cuda.grid(1)
    v = float32(i)
    for _ in range(int32(n)):
        v = v * float32(1.5) + float32(0.5)
    out[i] = v


@cuda.jit
def move(a, b):
    i = cuda.grid(1)
    b[i] = a[i]


SMS, BLOCK = 108, 1024


def spans(start: int, kind: str = "kernel"):
    grader.vgpu.finish()
    return [s for s in grader.vgpu.spans()[start:] if s.kind == kind]


def test_a_stream_of_high_priority_goes_first():
    out = cuda.device_array(BLOCK * SMS * 2, np.float32)
    low = cuda.external_stream(int(call(cu.cuStreamCreateWithPriority(1, 0))))
    high = cuda.external_stream(int(call(cu.cuStreamCreateWithPriority(1, -5))))
    spin[2 * SMS, BLOCK](out, 2000)
    cuda.synchronize()
    start = len(grader.vgpu.spans())
    for _ in range(4):
        spin[2 * SMS, BLOCK, low](out, 2000)
    spin[2 * SMS, BLOCK, high](out, 2000)
    found = spans(start)
    first = min(found, key=lambda s: s.end_us if s.stream == found[0].stream else 1e30)
    urgent = next(s for s in found if s.stream == first.stream)
    rest = [s for s in found if s.stream != first.stream]
    assert len(rest) == 4
    alone = urgent.end_us - urgent.start_us
    assert urgent.end_us < sorted(s.end_us for s in rest)[1]  # though it was launched last
    assert max(s.end_us for s in rest) - min(s.start_us for s in rest) == pytest.approx(5 * alone, rel=0.1)


def test_copies_take_no_notice_of_priorities():
    n = 1 << 20
    here, there = (cuda.pinned_array(n, np.float32) for _ in range(2))
    a, b = (cuda.device_array(n, np.float32) for _ in range(2))
    low = cuda.external_stream(int(call(cu.cuStreamCreateWithPriority(1, 0))))
    high = cuda.external_stream(int(call(cu.cuStreamCreateWithPriority(1, -5))))
    cuda.synchronize()
    start = len(grader.vgpu.spans())
    for _ in range(3):
        a.copy_to_device(here, stream=low)
    b.copy_to_device(there, stream=high)
    *before, urgent = sorted(spans(start, "h2d"), key=lambda s: s.start_us)
    assert len(before) == 3 and len({s.stream for s in before}) == 1 and urgent.stream != before[0].stream


def test_without_priorities_kernels_take_turns_in_the_order_of_launch():
    out = cuda.device_array(BLOCK * SMS * 2, np.float32)
    one, two = (cuda.external_stream(int(stream())) for _ in range(2))
    start = len(grader.vgpu.spans())
    spin[2 * SMS, BLOCK, one](out, 2000)
    spin[2 * SMS, BLOCK, one](out, 2000)
    spin[2 * SMS, BLOCK, two](out, 2000)
    a, b, c = spans(start)
    assert a.end_us <= b.start_us + 0.5 and c.end_us > b.end_us


def test_two_kernels_that_fill_the_memorys_bandwidth_take_twice_as_long_together():
    n = 1 << 22
    arrays = [cuda.device_array(n, np.float32) for _ in range(4)]
    streams = [cuda.external_stream(int(stream())) for _ in range(2)]
    start = len(grader.vgpu.spans())
    for k, s in enumerate(streams):
        move[n // 256, 256, s](arrays[2 * k], arrays[2 * k + 1])
    a, b = spans(start)
    alone = a.end_us - a.start_us
    assert b.end_us - a.start_us == pytest.approx(2 * alone, rel=0.1)


@pytest.fixture
def peers():
    """copies(pairs): spans of copies between devices (from, to), submitted all at once, and us of the first alone."""
    contexts, nbytes = {k: call(cu.cuDevicePrimaryCtxRetain(k)) for k in (0, 1)}, 64 << 20
    buffers, streams = {}, []
    for k, context in contexts.items():
        call(cu.cuCtxPushCurrent(context))
        call(cu.cuCtxEnablePeerAccess(contexts[1 - k], 0))
        buffers[k] = [alloc(nbytes) for _ in range(4)]
        call(cu.cuCtxPopCurrent())

    def submit(pairs):
        start = len(grader.vgpu.spans())
        for j, (source, to) in enumerate(pairs):
            call(cu.cuCtxPushCurrent(contexts[source]))
            streams.append((source, stream()))
            ends = buffers[to][j], contexts[to], buffers[source][2 + j], contexts[source]
            call(cu.cuMemcpyPeerAsync(*ends, nbytes, streams[-1][1]))
            call(cu.cuCtxPopCurrent())
        return spans(start, "p2p")

    def copies(pairs):
        (one,) = submit(pairs[:1])
        return submit(pairs), one.end_us - one.start_us

    yield copies
    for k, context in contexts.items():
        call(cu.cuCtxPushCurrent(context))
        for address in buffers[k]:
            call(cu.cuMemFree(address))
        for made in [made for source, made in streams if source == k]:
            call(cu.cuStreamDestroy(made))
        call(cu.cuCtxDisablePeerAccess(contexts[1 - k]))
        call(cu.cuCtxPopCurrent())
        call(cu.cuDevicePrimaryCtxRelease(k))


def test_two_peer_copies_in_one_direction_take_twice_as_long_together(peers):
    (a, b), alone = peers([(0, 1), (0, 1)])
    assert max(a.end_us, b.end_us) - a.start_us == pytest.approx(2 * alone, rel=0.1)


def test_peer_copies_in_opposite_directions_do_not(peers):
    both, alone = peers([(0, 1), (1, 0)])
    assert [s.end_us - s.start_us for s in both] == pytest.approx([alone, alone], rel=0.01)


def test_a_part_of_the_sms_runs_beside_the_rest_and_is_slower_than_the_whole():
    from cuda.bindings.driver import CUdevResourceType

    device = call(cu.cuDeviceGet(0))
    resource = call(cu.cuDeviceGetDevResource(device, CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM))
    groups, _, rest = call(cu.cuDevSmResourceSplitByCount(1, resource, 0, 54))
    parts = [groups[0], rest]
    greens = [call(cu.cuGreenCtxCreate(call(cu.cuDevResourceGenerateDesc([p], 1)), device, 1)) for p in parts]
    streams = [cuda.external_stream(int(call(cu.cuGreenCtxStreamCreate(g, 1, 0)))) for g in greens]
    out = [cuda.device_array(BLOCK * SMS, np.float32) for _ in range(2)]
    start = len(grader.vgpu.spans())
    spin[SMS, BLOCK](out[0], 2000)
    (whole,) = spans(start)
    start = len(grader.vgpu.spans())
    for s, o in zip(streams, out, strict=True):
        spin[SMS, BLOCK, s](o, 2000)
    a, b = spans(start)
    for green in greens:
        call(cu.cuGreenCtxDestroy(green))
    assert min(a.end_us, b.end_us) > max(a.start_us, b.start_us)  # side by side
    for part in (a, b):
        assert part.end_us - part.start_us > 1.3 * (whole.end_us - whole.start_us)
