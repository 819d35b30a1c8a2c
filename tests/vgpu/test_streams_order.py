"""racecheck between streams: ranges of bytes, the order of operations, and what a recording run does not see."""

import numpy as np
import pytest
from cuda.bindings import driver as cu
from driver_support import alloc, call, pinned, stream
from hypothesis import given
from hypothesis import strategies as st

import grader.vgpu
from grader.vgpu.driver.state import driver
from grader.vgpu.names import short_name
from grader.vgpu.sanitize.race import touched
from grader.vgpu.sanitize.streams import Access, Extents, History, Point, before

ranges = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), max_size=6)


def extents_of(pairs):
    """Extents of these (start, length), and the bytes themselves."""
    touched = np.zeros(80, bool)
    for start, length in pairs:
        touched[start : start + length] = True
    return Extents.words(0, 1, touched), set(np.flatnonzero(touched).tolist())


@given(ranges, ranges)
def test_two_extents_meet_where_both_have_a_byte(a, b):
    (mine, my_bytes), (yours, your_bytes) = extents_of(a), extents_of(b)
    where = mine.meet(yours)
    if where is None:
        assert not my_bytes & your_bytes
    else:
        assert set(range(*where)) <= my_bytes & your_bytes
        assert where[0] == min(my_bytes & your_bytes)
    assert mine.holds(yours) == (your_bytes <= my_bytes)


@given(st.lists(st.tuples(*[st.sampled_from((0, 1, 7 << 38, -1, -(1 << 62)))] * 2), min_size=1, max_size=20))
def test_the_shadow_tells_what_a_launch_read_and_wrote(entries):
    shadow = np.array([*entries, (0, 0)], np.int64).ravel()
    reads, writes, atomics = (Extents.words(0, 1, words) for words in touched(shadow, len(entries)))
    for extents, expected in (
        (reads, [read > 0 for _, read in entries]),
        (writes, [written > 0 for written, _ in entries]),
        (atomics, [written < 0 or read < 0 for written, read in entries]),
    ):
        known = {k for a, b in zip(extents.starts, extents.ends, strict=True) for k in range(a, b)}
        assert known == {k for k, there in enumerate(expected) if there}


def test_rows_of_a_pitched_copy_leave_out_what_is_between_them():
    rows = Extents.rows(1000, 16, rows=3, pitch=64)
    assert rows.starts.tolist() == [1000, 1064, 1128]
    assert rows.ends.tolist() == [1016, 1080, 1144]
    assert rows.meet(Extents.rows(1016, 48)) is None
    assert rows.meet(Extents.rows(1016, 49)) == (1064, 1065)


def test_an_event_orders_only_what_was_before_it():
    first, second = Point(stream=1, index=1, clock={}), Point(stream=1, index=2, clock={})
    waiting = Point(stream=2, index=1, clock={1: 1})
    assert before(first, waiting)
    assert not before(second, waiting)
    assert not before(waiting, first)


def test_nodes_of_a_launch_are_ordered_by_their_dependencies():
    fork, left, right, joined = (Point(1, 5, {}, node=k, nodes=n) for k, n in enumerate((0, 0b1, 0b1, 0b111)))
    assert before(fork, left)
    assert before(left, joined)
    assert not before(left, right)
    assert not before(right, left)


def test_a_later_access_of_the_same_bytes_stands_for_the_earlier_one():
    history, whole = History(), Extents.rows(0, 64)
    for index in range(1, 1000):
        assert history.add("x", Access(Point(1, index, {}), writes=whole), "x") is None
    assert len(history._of["x"]) == 1
    history.settle({1: 999})
    assert not history


def test_a_kernels_own_name_is_told():
    assert short_name("_ZN8__main__5scaleB2v1B38c8tJTIcFKzyF2ILShI4CrgQElQb6HczSBA_3dE5ArrayIfLi1E") == "scale"
    assert short_name("add_one") == "add_one"


@pytest.fixture
def findings():
    """What is found from here on."""
    driver.findings.clear()
    yield lambda: [(f.tool, f.kind) for f in grader.vgpu.findings()]
    driver.findings.clear()


def test_nothing_is_watched_where_racecheck_is_off(device, findings):
    options = grader.vgpu.options()
    options.racecheck = False
    try:
        x, h = alloc(64), pinned(16)
        call(cu.cuMemcpyHtoDAsync(x, h.ctypes.data, 64, stream()))
        call(cu.cuMemsetD32Async(x, 1, 16, stream()))
        h[:] = 1
        call(cu.cuCtxSynchronize())
        assert findings() == []
    finally:
        options.racecheck = True


def test_a_free_that_waits_is_no_order_that_the_manual_promises(device, findings):
    x, other, s, t = alloc(64), alloc(64), stream(), stream()
    call(cu.cuMemsetD32Async(x, 1, 16, s))
    call(cu.cuMemFree(other))
    call(cu.cuMemsetD32Async(x, 2, 16, t))
    call(cu.cuCtxSynchronize())
    assert findings() == [("racecheck", "unordered streams")]


def test_a_copy_between_devices_keeps_the_order_of_both(device, findings):
    context = call(cu.cuCtxGetCurrent())
    x, y, s, t = alloc(64), alloc(64), stream(), stream()
    call(cu.cuMemsetD32Async(x, 1, 16, s))
    call(cu.cuMemcpyPeer(y, context, x, context, 64))
    call(cu.cuMemsetD32Async(y, 2, 16, t))
    call(cu.cuCtxSynchronize())
    assert findings() == []


def test_a_queued_copy_that_finds_its_memory_freed_is_a_finding(device, findings):
    s, t = stream(), stream()
    x = call(cu.cuMemAllocAsync(64, s))
    call(cu.cuStreamSynchronize(s))
    h = pinned(16)
    call(cu.cuMemcpyDtoHAsync(h.ctypes.data, x, 64, t))
    call(cu.cuMemFreeAsync(x, s))
    call(cu.cuStreamSynchronize(s))
    assert cu.cuStreamSynchronize(t)[0] == cu.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    assert findings() == [("memcheck", "use after free")]
    call(cu.cuDevicePrimaryCtxReset(device))
