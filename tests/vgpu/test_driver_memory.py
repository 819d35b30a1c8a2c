"""Allocation, copies in more dimensions, pointer attributes, managed memory, pools, peers."""

import ctypes

import numpy as np
import pytest
from cuda.bindings import driver as cu
from driver_support import alloc, call, code, download, event, kernel, launch, pinned, stream, upload

P = cu.CUpointer_attribute


def managed(n, dtype=np.uint32):
    nbytes = n * np.dtype(dtype).itemsize
    address = int(call(cu.cuMemAllocManaged(nbytes, cu.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL.value)))
    return np.frombuffer((ctypes.c_uint8 * nbytes).from_address(address), dtype)


def location(kind, number=0):
    place = cu.CUmemLocation()
    place.type, place.id = kind, number
    return place


DEVICE0 = (cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, 0)
HOST = (cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_HOST, 0)


def test_allocated_bytes_count_as_used(device):
    free, total = call(cu.cuMemGetInfo())
    d = alloc(1 << 20)
    assert call(cu.cuMemGetInfo()) == (free - (1 << 20), total)
    call(cu.cuMemFree(d))
    assert call(cu.cuMemGetInfo())[0] == free


def test_2d_copies_skip_the_padding(device):
    host = np.arange(12, dtype=np.uint32).reshape(3, 4)
    d, pitch = call(cu.cuMemAllocPitch(16, 3, 4))
    assert pitch == 512
    params = cu.CUDA_MEMCPY2D()
    params.srcMemoryType, params.srcHost, params.srcPitch = cu.CUmemorytype.CU_MEMORYTYPE_HOST, host.ctypes.data, 16
    params.dstMemoryType, params.dstDevice, params.dstPitch = cu.CUmemorytype.CU_MEMORYTYPE_DEVICE, d, pitch
    params.WidthInBytes, params.Height = 16, 3
    call(cu.cuMemcpy2D(params))
    rows = [download(int(d) + k * pitch, 4).tolist() for k in range(3)]
    assert rows == host.tolist()


def test_2d_memset_skips_the_padding(device):
    d = upload(np.zeros(12, np.uint32))
    call(cu.cuMemsetD2D32(d, 16, 9, 2, 3))
    assert download(d, 12).tolist() == [9, 9, 0, 0] * 3


@pytest.mark.parametrize(("bits", "value"), [(8, 0x05050505), (16, 0x00050005), (32, 5)])
def test_memsets_of_three_widths(device, bits, value):
    d = alloc(16)
    call(getattr(cu, f"cuMemsetD{bits}")(d, 5, 128 // bits))
    assert download(d, 4).tolist() == [value] * 4


def test_a_copy_to_itself_through_unified_addresses(device):
    h = pinned(4)
    h[:] = [1, 2, 3, 4]
    d = alloc(16)
    call(cu.cuMemcpy(d, h.ctypes.data, 16))
    h[:] = 0
    call(cu.cuMemcpy(h.ctypes.data, d, 16))
    assert h.tolist() == [1, 2, 3, 4]


def test_pointer_attributes(device):
    d, h, m = alloc(64), pinned(4), managed(4)
    kind = P.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
    assert int(call(cu.cuPointerGetAttribute(kind, d))) == 2
    assert int(call(cu.cuPointerGetAttribute(kind, h.ctypes.data))) == 1
    assert call(cu.cuPointerGetAttribute(P.CU_POINTER_ATTRIBUTE_IS_MANAGED, m.ctypes.data))
    assert int(call(cu.cuPointerGetAttribute(P.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, d + 8))) == d
    assert code(cu.cuPointerGetAttribute(kind, 0x1234)) == "INVALID_VALUE"
    wanted = [P.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, kind]
    assert [int(v) for v in call(cu.cuPointerGetAttributes(2, wanted, 0x1234))] == [-2, 0]
    base, size = call(cu.cuMemGetAddressRange(d + 8))
    assert (int(base), size) == (d, 64)


def test_kernels_reach_pinned_registered_and_managed_memory(device):
    mine = np.zeros(4, np.uint32)
    call(cu.cuMemHostRegister(mine.ctypes.data, 16, cu.CU_MEMHOSTREGISTER_DEVICEMAP))
    arrays = [pinned(4), mine, managed(4)]
    for array in arrays:
        array[:] = [1, 2, 3, 4]
        address = array.ctypes.data
        if array is not arrays[2]:
            address = int(call(cu.cuMemHostGetDevicePointer(address, 0)))
        call(launch(kernel(), address, np.uint32(4)))
    assert arrays[0].tolist() == [1, 2, 3, 4]
    call(cu.cuCtxSynchronize())
    assert [array.tolist() for array in arrays] == [[2, 3, 4, 5]] * 3
    call(cu.cuMemHostUnregister(mine.ctypes.data))


def test_advice_and_prefetch_are_remembered(device):
    m = managed(1024)
    address, nbytes = m.ctypes.data, m.nbytes
    advise = cu.CUmem_advise
    call(cu.cuMemAdvise(address, nbytes, advise.CU_MEM_ADVISE_SET_READ_MOSTLY, location(*DEVICE0)))
    call(cu.cuMemAdvise(address, nbytes, advise.CU_MEM_ADVISE_SET_PREFERRED_LOCATION, location(*DEVICE0)))
    call(cu.cuMemPrefetchAsync(address, nbytes, location(*DEVICE0), 0, 0))
    call(cu.cuCtxSynchronize())
    ask = cu.CUmem_range_attribute
    for attribute, value in (
        (ask.CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, 1),
        (ask.CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, 0),
        (ask.CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, 0),
    ):
        assert int(call(cu.cuMemRangeGetAttribute(4, attribute, address, nbytes))) == value
    call(cu.cuMemPrefetchAsync(address, nbytes, location(*HOST), 0, 0))
    call(cu.cuCtxSynchronize())
    last = cu.CUmem_range_attribute.CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION
    assert int(call(cu.cuMemRangeGetAttribute(4, last, address, nbytes))) == -1
    assert code(cu.cuMemPrefetchAsync(alloc(64), 64, location(*DEVICE0), 0, 0)) == "INVALID_VALUE"


def test_stream_ordered_allocation_lives_until_its_free_is_reached(device):
    s, h = stream(), pinned(4)
    d = call(cu.cuMemAllocAsync(16, s))
    call(cu.cuMemsetD32Async(d, 7, 4, s))
    call(cu.cuMemcpyDtoHAsync(h.ctypes.data, d, 16, s))
    call(cu.cuMemFreeAsync(d, s))
    assert code(cu.cuMemFreeAsync(d, s)) == "INVALID_VALUE"
    call(cu.cuStreamSynchronize(s))
    assert h.tolist() == [7] * 4
    assert code(cu.cuMemGetAddressRange(d)) == "NOT_FOUND"


def test_a_pool_counts_what_is_used_and_keeps_what_its_threshold_says(device):
    props = cu.CUmemPoolProps()
    props.allocType = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    props.location = location(*DEVICE0)
    props.maxSize = 64 << 20
    pool = call(cu.cuMemPoolCreate(props))
    ask, s = cu.CUmemPool_attribute, stream()

    def value(attribute):
        return int(call(cu.cuMemPoolGetAttribute(pool, attribute)))

    d = call(cu.cuMemAllocFromPoolAsync(1 << 20, pool, s))
    assert value(ask.CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 1 << 20
    assert value(ask.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 32 << 20
    assert code(cu.cuMemAllocFromPoolAsync(64 << 20, pool, s)) == "OUT_OF_MEMORY"
    call(cu.cuMemPoolSetAttribute(pool, ask.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, cu.cuuint64_t(1 << 40)))
    call(cu.cuMemFreeAsync(d, s))
    call(cu.cuStreamSynchronize(s))
    assert value(ask.CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0
    assert value(ask.CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 1 << 20
    assert value(ask.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 32 << 20
    call(cu.cuMemPoolTrimTo(pool, 0))
    assert value(ask.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0
    call(cu.cuMemPoolDestroy(pool))


@pytest.fixture
def peer(device):
    """The other device's primary context."""
    context = call(cu.cuDevicePrimaryCtxRetain(1))
    yield context
    call(cu.cuDevicePrimaryCtxRelease(1))


def on(context, function):
    """Run with another context current."""
    call(cu.cuCtxPushCurrent(context))
    try:
        return function()
    finally:
        call(cu.cuCtxPopCurrent())


def test_copies_between_devices(device, peer):
    here = upload(np.arange(4, dtype=np.uint32))
    there = on(peer, lambda: alloc(16))
    call(cu.cuMemcpyPeer(there, peer, here, call(cu.cuCtxGetCurrent()), 16))
    assert on(peer, lambda: download(there, 4)).tolist() == [0, 1, 2, 3]


def test_a_kernel_reaches_a_peers_memory_only_with_access(device, peer):
    there = on(peer, lambda: upload(np.zeros(4, np.uint32)))
    assert call(cu.cuDeviceCanAccessPeer(0, 1)) == 1
    call(cu.cuCtxEnablePeerAccess(peer, 0))
    assert code(cu.cuCtxEnablePeerAccess(peer, 0)) == "PEER_ACCESS_ALREADY_ENABLED"
    call(launch(kernel(), there, np.uint32(4)))
    call(cu.cuCtxSynchronize())
    assert on(peer, lambda: download(there, 4)).tolist() == [1] * 4
    call(cu.cuCtxDisablePeerAccess(peer))
    call(launch(kernel(), there, np.uint32(4)))
    assert code(cu.cuCtxSynchronize()) == "ILLEGAL_ADDRESS"
    call(cu.cuDevicePrimaryCtxReset(0))


def test_a_peer_copy_takes_nvlinks_time(device, peer):
    n = 16 << 20
    call(cu.cuCtxEnablePeerAccess(peer, 0))
    here, there = alloc(n), on(peer, lambda: alloc(n))
    a, b = event(), event()
    call(cu.cuEventRecord(a, 0))
    call(cu.cuMemcpyDtoDAsync(there, here, n, 0))
    call(cu.cuEventRecord(b, 0))
    call(cu.cuEventSynchronize(b))
    rate = n / (call(cu.cuEventElapsedTime(a, b)) * 1e-3)  # 300 GB/s a direction is the most (NVIDIA A100 white paper)
    assert 200e9 < rate < 300e9


def test_green_contexts_have_a_part_of_the_device(device):
    kind = cu.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
    whole = call(cu.cuDeviceGetDevResource(device, kind))
    assert whole.sm.smCount == 108
    groups, n, rest = call(cu.cuDevSmResourceSplitByCount(2, whole, 0, 16))
    assert (n, [group.sm.smCount for group in groups], rest.sm.smCount) == (2, [16, 16], 76)
    description = call(cu.cuDevResourceGenerateDesc(groups[:1], 1))
    flags = cu.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM
    green = call(cu.cuGreenCtxCreate(description, device, flags))
    s = call(cu.cuGreenCtxStreamCreate(green, cu.CUstream_flags.CU_STREAM_NON_BLOCKING, 0))
    assert call(cu.cuGreenCtxGetDevResource(green, kind)).sm.smCount == 16
    d = upload(np.zeros(4, np.uint32))
    call(launch(kernel(), d, np.uint32(4), stream=s))
    call(cu.cuStreamSynchronize(s))
    assert download(d, 4).tolist() == [1] * 4
    call(cu.cuStreamDestroy(s))
    call(cu.cuGreenCtxDestroy(green))


def green_context(device):
    kind = cu.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
    whole = call(cu.cuDeviceGetDevResource(device, kind))
    groups, _, _ = call(cu.cuDevSmResourceSplitByCount(1, whole, 0, 16))
    return call(cu.cuGreenCtxCreate(call(cu.cuDevResourceGenerateDesc(groups, 1)), device, 1))


def test_green_contexts_and_the_primary_see_the_same_shared_memory_once(device):
    other = call(cu.cuDevicePrimaryCtxRetain(1))
    greens = [green_context(device) for _ in range(2)]
    for flags in (1, 2):
        call(cu.cuCtxPushCurrent(other))
        address = int(call(cu.cuMemAllocManaged(64, 1)) if flags == 1 else call(cu.cuMemHostAlloc(64, 0)))
        call(cu.cuCtxPopCurrent())
        call(cu.cuGreenCtxDestroy(greens.pop()))
        call(launch(kernel(), address, np.uint32(4)))
        call(cu.cuCtxSynchronize())  # the primary context still reaches it
        call(cu.cuMemFree(address) if flags == 1 else cu.cuMemFreeHost(address))
    call(cu.cuDevicePrimaryCtxRelease(1))


def test_a_green_context_holds_on_to_the_primary_context_and_ends_with_it(device):
    gpu = call(cu.cuDeviceGet(1))
    assert call(cu.cuDevicePrimaryCtxGetState(gpu))[1] == 1  # the tests hold on to it
    call(cu.cuDevicePrimaryCtxRelease(gpu))
    held = call(cu.cuDevicePrimaryCtxGetState(gpu))[1]  # what numba may do too
    green = green_context(gpu)
    assert call(cu.cuDevicePrimaryCtxGetState(gpu))[1] == 1
    context = call(cu.cuCtxFromGreenCtx(green))
    call(cu.cuCtxPushCurrent(context))
    h = pinned(4)
    address = h.ctypes.data
    call(cu.cuCtxPopCurrent())
    call(cu.cuDevicePrimaryCtxReset(gpu))
    assert code(cu.cuGreenCtxDestroy(green)) != "SUCCESS"
    assert code(cu.cuMemFreeHost(address)) == "INVALID_VALUE"  # it went with its context
    assert call(cu.cuDevicePrimaryCtxGetState(gpu))[1] == 0
    again = green_context(gpu)
    call(cu.cuGreenCtxDestroy(again))
    assert call(cu.cuDevicePrimaryCtxGetState(gpu))[1] == held
    call(cu.cuDevicePrimaryCtxRetain(gpu))
