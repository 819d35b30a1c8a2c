"""Work is executed as late as the API allows, in the order that streams and events ask for."""

import numpy as np
import pytest
from cuda.bindings import driver as cu
from driver_support import DriverError, alloc, call, code, download, event, pinned, stream

from grader.vgpu.driver.abi import LOCK

POISON = 0xCBCBCBCB


def set32(address, value, n, where):
    call(cu.cuMemsetD32Async(address, value, n, where))


def read32(target: np.ndarray, address, where):
    """Asynchronously, into pinned memory."""
    call(cu.cuMemcpyDtoHAsync(target.ctypes.data, address, target.nbytes, where))


def test_a_result_that_nobody_waited_for_is_stale(device):
    s, d, h = stream(), alloc(16), pinned(4)
    h[:] = 5
    set32(d, 7, 4, s)
    read32(h, d, s)
    assert h.tolist() == [5] * 4
    call(cu.cuStreamSynchronize(s))
    assert h.tolist() == [7] * 4


def test_another_streams_synchronisation_does_not_help(device):
    s, other, d, h = stream(), stream(), alloc(16), pinned(4)
    h[:] = 5
    set32(d, 7, 4, s)
    read32(h, d, s)
    call(cu.cuStreamSynchronize(other))
    assert h.tolist() == [5] * 4
    call(cu.cuCtxSynchronize())
    assert h.tolist() == [7] * 4


def test_the_source_of_an_async_copy_from_pinned_memory_is_read_late(device):
    s, d, h = stream(), alloc(16), pinned(4)
    h[:] = 1
    call(cu.cuMemcpyHtoDAsync(d, h.ctypes.data, 16, s))
    h[:] = 2  # too early
    call(cu.cuStreamSynchronize(s))
    assert download(d, 4).tolist() == [2] * 4


def test_the_source_of_an_async_copy_from_pageable_memory_is_read_at_the_call(device):
    s, d, h = stream(), alloc(16), np.full(4, 1, np.uint32)
    call(cu.cuMemcpyHtoDAsync(d, h.ctypes.data, 16, s))
    h[:] = 2
    call(cu.cuStreamSynchronize(s))
    assert download(d, 4).tolist() == [1] * 4


def test_an_async_copy_to_pageable_memory_returns_when_it_is_done(device):
    s, d, h = stream(), alloc(16), np.zeros(4, np.uint32)
    set32(d, 7, 4, s)
    call(cu.cuMemcpyDtoHAsync(h.ctypes.data, d, 16, s))
    assert h.tolist() == [7] * 4


def test_fresh_device_memory_is_poisoned(device):
    assert download(alloc(16), 4).tolist() == [POISON] * 4


@pytest.mark.parametrize(("nonblocking", "value"), [(False, 7), (True, POISON)])
def test_the_legacy_stream_waits_for_blocking_streams_only(device, nonblocking, value):
    s, d, h = stream(nonblocking), alloc(16), pinned(4)
    set32(d, 7, 4, s)
    read32(h, d, 0)  # the legacy default stream
    call(cu.cuStreamSynchronize(0))
    assert h.tolist() == [value] * 4


@pytest.mark.parametrize(("nonblocking", "value"), [(False, 7), (True, POISON)])
def test_blocking_streams_wait_for_the_legacy_stream(device, nonblocking, value):
    s, d, h = stream(nonblocking), alloc(16), pinned(4)
    set32(d, 7, 4, 0)
    read32(h, d, s)
    call(cu.cuStreamSynchronize(s))
    assert h.tolist() == [value] * 4


def test_the_per_thread_stream_is_a_blocking_one(device):
    d, h = alloc(16), pinned(4)
    set32(d, 7, 4, cu.CU_STREAM_PER_THREAD)
    read32(h, d, cu.CU_STREAM_LEGACY)
    call(cu.cuStreamSynchronize(cu.CU_STREAM_LEGACY))
    assert h.tolist() == [7] * 4


def test_an_event_orders_two_streams(device):
    first, second, d, h, e = stream(), stream(), alloc(16), pinned(4), event()
    set32(d, 7, 4, first)
    call(cu.cuEventRecord(e, first))
    call(cu.cuStreamWaitEvent(second, e, 0))
    read32(h, d, second)
    set32(d, 8, 4, first)  # after the event: not waited for
    call(cu.cuStreamSynchronize(second))
    assert h.tolist() == [7] * 4


def test_a_wait_for_an_event_that_was_recorded_later_does_nothing(device):
    first, second, d, h, e = stream(), stream(), alloc(16), pinned(4), event()
    call(cu.cuStreamWaitEvent(second, e, 0))  # not recorded yet
    set32(d, 7, 4, first)
    call(cu.cuEventRecord(e, first))
    read32(h, d, second)
    call(cu.cuStreamSynchronize(second))
    assert h.tolist() == [POISON] * 4


def test_a_synchronised_event_executes_what_is_before_it_only(device):
    s, d, h, e = stream(), alloc(16), pinned(4), event()
    set32(d, 7, 4, s)
    read32(h, d, s)
    call(cu.cuEventRecord(e, s))
    set32(d, 9, 4, s)
    late = pinned(4)
    late[:] = 0
    read32(late, d, s)
    call(cu.cuEventSynchronize(e))
    assert (h.tolist(), late.tolist()) == ([7] * 4, [0] * 4)


def test_a_query_says_not_ready_before_it_says_ready(device):
    s, d, e = stream(), alloc(16), event()
    assert code(cu.cuStreamQuery(s)) == "SUCCESS"
    set32(d, 7, 4, s)
    call(cu.cuEventRecord(e, s))
    assert code(cu.cuEventQuery(e)) == "NOT_READY"
    assert code(cu.cuEventQuery(e)) == "SUCCESS"
    set32(d, 7, 4, s)
    assert [code(cu.cuStreamQuery(s)) for _ in range(3)] == ["NOT_READY", "SUCCESS", "SUCCESS"]


def test_a_free_waits_for_the_device(device):
    s, d, h, other = stream(), alloc(16), pinned(4), alloc(16)
    set32(d, 7, 4, s)
    read32(h, d, s)
    call(cu.cuMemFree(other))
    assert h.tolist() == [7] * 4


def test_elapsed_time_is_the_modelled_time_between_two_events(device):
    s, a, b = stream(), event(), event()
    h, d = pinned(1 << 20), alloc(4 << 20)
    call(cu.cuEventRecord(a, s))
    call(cu.cuMemcpyHtoDAsync(d, h.ctypes.data, h.nbytes, s))
    call(cu.cuEventRecord(b, s))
    assert code(cu.cuEventElapsedTime(a, b)) == "NOT_READY"
    call(cu.cuEventSynchronize(b))
    ms = call(cu.cuEventElapsedTime(a, b))
    assert ms == pytest.approx((4 << 20) / 25e9 * 1e3, rel=0.1)


def test_an_event_without_timing_has_none(device):
    a, b = event(timing=False), event()
    call(cu.cuEventRecord(a, 0))
    call(cu.cuEventRecord(b, 0))
    call(cu.cuCtxSynchronize())
    assert code(cu.cuEventElapsedTime(a, b)) == "INVALID_HANDLE"


def test_copies_in_two_directions_overlap(device):
    up, down, begin, end = stream(), stream(), event(), event()
    h, d = [pinned(1 << 20) for _ in range(2)], [alloc(4 << 20) for _ in range(2)]
    alone = (4 << 20) / 25e9 * 1e3
    call(cu.cuEventRecord(begin, up))
    call(cu.cuMemcpyHtoDAsync(d[0], h[0].ctypes.data, 4 << 20, up))
    call(cu.cuMemcpyDtoHAsync(h[1].ctypes.data, d[1], 4 << 20, down))
    joined = event(timing=False)
    call(cu.cuEventRecord(joined, down))
    call(cu.cuStreamWaitEvent(up, joined, 0))
    call(cu.cuEventRecord(end, up))
    call(cu.cuEventSynchronize(end))
    assert alone < call(cu.cuEventElapsedTime(begin, end)) < 1.2 * alone


def test_host_functions_run_in_order_and_although_nobody_waits(device):
    import ctypes
    import threading

    said, done = [], threading.Event()

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def hear(data):
        said.append(data)
        if data == 2:
            done.set()

    s = stream()
    address = ctypes.cast(hear, ctypes.c_void_p).value
    with LOCK:  # the helper does not come between
        for number in (1, 2):
            call(cu.cuLaunchHostFunc(s, cu.CUhostFn(address), number))
        assert said == []
    assert done.wait(300)
    assert said == [1, 2]


def test_a_host_function_may_not_call_cuda(device):
    import ctypes

    codes = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def disobey(_):
        codes.append(code(cu.cuMemAlloc(4)))

    s = stream()
    call(cu.cuLaunchHostFunc(s, cu.CUhostFn(ctypes.cast(disobey, ctypes.c_void_p).value), 0))
    call(cu.cuStreamSynchronize(s))
    assert codes == ["NOT_PERMITTED"]


def test_a_queued_copy_into_memory_that_was_freed_is_an_illegal_address(device):
    s, other, d, h = stream(), stream(), alloc(16), pinned(4)
    e = event()
    call(cu.cuMemFreeAsync(d, s))
    call(cu.cuEventRecord(e, s))
    call(cu.cuStreamWaitEvent(other, e, 0))
    with pytest.raises(DriverError, match="ILLEGAL_ADDRESS"):
        read32(h, d, other)
        call(cu.cuStreamSynchronize(other))
    assert code(cu.cuMemAlloc(4)) == "ILLEGAL_ADDRESS"  # sticky
    call(cu.cuDevicePrimaryCtxReset(device))
    call(cu.cuDevicePrimaryCtxRetain(device))
    assert code(cu.cuMemAlloc(4)) == "SUCCESS"
    call(cu.cuDevicePrimaryCtxRelease(device))


def test_a_batch_of_copies_is_queued_in_order(device):
    s, a, b, h = stream(), alloc(16), alloc(16), pinned(4)
    set32(a, 3, 4, s)
    attributes = cu.CUmemcpyAttributes()
    attributes.srcAccessOrder = cu.CUmemcpySrcAccessOrder.CU_MEMCPY_SRC_ACCESS_ORDER_STREAM
    targets, sources = ([cu.CUdeviceptr(x) for x in pair] for pair in ((b, h.ctypes.data), (a, b)))
    call(cu.cuMemcpyBatchAsync(targets, sources, [16, 16], 2, [attributes], [0], 1, s))
    call(cu.cuStreamSynchronize(s))
    assert h.tolist() == [3] * 4
