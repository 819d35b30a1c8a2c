"""Arguments are checked, and errors are the real driver's codes."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from cuda.bindings import driver as cu
from driver_support import ADD_ONE, alloc, call, code, download, kernel, launch, pinned, upload

A = cu.CUfunction_attribute


def other_primary():
    """(CUresult, the primary context of device 1), which is not retained once more for it."""
    found = cu.cuDevicePrimaryCtxRetain(1)
    call(cu.cuDevicePrimaryCtxRelease(1))
    return found


def test_nothing_works_without_a_context_but_waiting_for_a_stream(device):
    stream, memory = call(cu.cuStreamCreate(1)), alloc(64)
    call(cu.cuMemsetD8Async(memory, 5, 64, stream))
    popped = []  # all that tests before this one have pushed
    while int(call(cu.cuCtxGetCurrent())):
        popped.append(call(cu.cuCtxPopCurrent()))
    try:
        assert code(cu.cuMemAlloc(4)) == "INVALID_CONTEXT"
        assert code(cu.cuCtxSynchronize()) == "INVALID_CONTEXT"
        assert code(cu.cuStreamSynchronize(0)) == "INVALID_CONTEXT"
        assert code(cu.cuStreamQuery(0)) == "INVALID_CONTEXT"
        assert code(cu.cuStreamQuery(stream)) == "NOT_READY"
        assert code(cu.cuStreamSynchronize(stream)) == "SUCCESS"
        assert code(cu.cuStreamQuery(stream)) == "SUCCESS"
    finally:
        for context in reversed(popped):
            call(cu.cuCtxPushCurrent(context))


@pytest.mark.parametrize(
    ("what", "attempt"),
    [
        ("INVALID_VALUE", lambda: cu.cuMemAlloc(0)),
        ("OUT_OF_MEMORY", lambda: cu.cuMemAlloc(1 << 40)),
        ("INVALID_VALUE", lambda: cu.cuMemFree(12345)),
        ("INVALID_VALUE", lambda: cu.cuMemFree(alloc(64) + 4)),
        ("INVALID_VALUE", lambda: cu.cuMemFreeHost(12345)),
        ("INVALID_VALUE", lambda: cu.cuMemsetD8(alloc(64), 0, 65)),
        ("INVALID_VALUE", lambda: cu.cuMemsetD32(alloc(64) + 2, 0, 1)),
        ("INVALID_VALUE", lambda: cu.cuMemcpyHtoD(12345, np.zeros(4).ctypes.data, 8)),
        ("INVALID_VALUE", lambda: cu.cuMemcpyDtoD(alloc(8), alloc(16), 16)),
        ("INVALID_VALUE", lambda: cu.cuMemAllocManaged(64, 9)),
        ("INVALID_VALUE", lambda: cu.cuStreamCreate(8)),
        ("INVALID_HANDLE", lambda: cu.cuStreamSynchronize(0x1234)),
        ("INVALID_HANDLE", lambda: cu.cuEventRecord(0x1234, 0)),
        ("INVALID_VALUE", lambda: cu.cuEventCreate(64)),
        ("INVALID_PTX", lambda: cu.cuModuleLoadData(b"not PTX")),
        ("INVALID_PTX", lambda: cu.cuModuleLoadData(ADD_ONE.replace(b"mad.lo.s32", b"mad.lo.u7"))),
        ("NO_BINARY_FOR_GPU", lambda: cu.cuModuleLoadData(ADD_ONE.replace(b"sm_80", b"sm_90"))),
        ("NO_BINARY_FOR_GPU", lambda: cu.cuModuleLoadData(b"\x7fELF" + bytes(64))),
        ("FILE_NOT_FOUND", lambda: cu.cuModuleLoad(b"/no/such/file.ptx")),
        ("NOT_FOUND", lambda: cu.cuModuleGetFunction(call(cu.cuModuleLoadData(ADD_ONE)), b"other")),
        ("NOT_FOUND", lambda: cu.cuModuleGetGlobal(call(cu.cuModuleLoadData(ADD_ONE)), b"other")),
        ("HOST_MEMORY_NOT_REGISTERED", lambda: cu.cuMemHostUnregister(0x1234)),
        ("HOST_MEMORY_ALREADY_REGISTERED", lambda: cu.cuMemHostRegister(pinned(4).ctypes.data, 16, 0)),
        ("UNSUPPORTED_LIMIT", lambda: cu.cuCtxSetLimit(cu.CUlimit.CU_LIMIT_CIG_ENABLED, 1)),
        ("PEER_ACCESS_NOT_ENABLED", lambda: cu.cuCtxDisablePeerAccess(call(other_primary()))),
        ("ILLEGAL_STATE", lambda: cu.cuStreamEndCapture(call(cu.cuStreamCreate(1)))),
        ("STREAM_CAPTURE_UNSUPPORTED", lambda: cu.cuStreamBeginCapture(0, cu.CUstreamCaptureMode(0))),
    ],
)
def test_codes(device, what, attempt):
    assert code(attempt()) == what


@pytest.mark.parametrize(
    ("what", "shape"),
    [
        ("INVALID_VALUE", {"block": 1025}),
        ("INVALID_VALUE", {"block": 0}),
        ("INVALID_VALUE", {"grid": 0}),
        ("INVALID_VALUE", {"shared": 49153}),
    ],
)
def test_launch_limits(device, what, shape):
    assert code(launch(kernel(), alloc(64), np.uint32(1), **shape)) == what


def test_large_dynamic_shared_memory_has_to_be_asked_for(device):
    function, d = kernel(), alloc(64)
    call(cu.cuMemsetD32(d, 0, 16))
    attribute = A.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    assert call(cu.cuFuncGetAttribute(attribute, function)) == 49152
    assert code(cu.cuFuncSetAttribute(function, attribute, 166913)) == "INVALID_VALUE"
    assert code(launch(function, d, np.uint32(1), shared=166912)) == "INVALID_VALUE"
    call(cu.cuFuncSetAttribute(function, attribute, 166912))
    assert code(launch(function, d, np.uint32(1), shared=166912)) == "SUCCESS"


def test_a_cooperative_launch_has_to_fit_the_device(device):
    function, d = kernel(), alloc(64)
    most = call(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, 1024, 0)) * 108
    assert most == 216
    import ctypes

    args = ((d, 0), (ctypes.c_uint64, ctypes.c_uint32))
    too_large = cu.cuLaunchCooperativeKernel(function, most + 1, 1, 1, 1024, 1, 1, 0, 0, args)
    assert code(too_large) == "COOPERATIVE_LAUNCH_TOO_LARGE"


def test_a_fault_is_sticky_until_the_context_is_reset(device, capfd):
    function = kernel()
    d = upload(np.zeros(4, np.uint32))
    assert code(launch(function, d, np.uint32(1000), block=64)) == "SUCCESS"  # told later
    assert code(cu.cuCtxSynchronize()) == "ILLEGAL_ADDRESS"
    assert code(cu.cuMemAlloc(4)) == "ILLEGAL_ADDRESS"
    assert code(cu.cuMemFree(d)) == "ILLEGAL_ADDRESS"
    said = capfd.readouterr().err
    assert said.count("grader:") == 1
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in said
    call(cu.cuDevicePrimaryCtxReset(device))
    assert code(cu.cuMemAlloc(4)) == "CONTEXT_IS_DESTROYED"
    assert int(call(cu.cuDevicePrimaryCtxRetain(device))) == int(call(cu.cuCtxGetCurrent()))
    assert download(upload(np.arange(4, dtype=np.uint32)), 4).tolist() == [0, 1, 2, 3]
    call(cu.cuDevicePrimaryCtxRelease(device))


def test_a_second_context_is_unharmed_by_the_firsts_fault(device):
    call(launch(kernel(), upload(np.zeros(4, np.uint32)), np.uint32(1000), block=64))
    assert code(cu.cuCtxSynchronize()) == "ILLEGAL_ADDRESS"
    other = call(cu.cuCtxCreate(None, 0, device))
    assert code(cu.cuMemAlloc(4)) == "SUCCESS"
    call(cu.cuCtxDestroy(other))
    call(cu.cuDevicePrimaryCtxReset(device))


def test_a_reset_primary_context_can_be_current_and_not_used(device):
    handle, d = call(cu.cuCtxGetCurrent()), alloc(4)
    call(cu.cuDevicePrimaryCtxReset(device))
    assert call(cu.cuDevicePrimaryCtxGetState(device))[1] == 0
    call(cu.cuCtxSetCurrent(handle))
    assert code(cu.cuMemAlloc(4)) == "CONTEXT_IS_DESTROYED"
    assert code(cu.cuMemFree(d)) == "INVALID_VALUE"  # it went with the context
    assert int(call(cu.cuDevicePrimaryCtxRetain(device))) == int(handle)
    assert code(cu.cuMemAlloc(4)) == "SUCCESS"
    call(cu.cuDevicePrimaryCtxRelease(device))


def test_memory_is_freed_without_a_current_context(device):
    d, h, page = alloc(4), call(cu.cuMemAllocHost(4)), np.zeros(4096, np.uint8)
    call(cu.cuMemHostRegister(page.ctypes.data, 4096, 0))

    def free():
        assert code(cu.cuMemAlloc(4)) == "INVALID_CONTEXT"
        return [code(cu.cuMemFree(d)), code(cu.cuMemFreeHost(h)), code(cu.cuMemHostUnregister(page.ctypes.data))]

    with ThreadPoolExecutor(1) as another:
        assert another.submit(free).result() == ["SUCCESS"] * 3


def test_contexts_form_a_stack(device):
    first = call(cu.cuCtxGetCurrent())
    second = call(cu.cuCtxCreate(None, 0, device))
    assert int(call(cu.cuCtxGetCurrent())) == int(second)
    assert int(call(cu.cuCtxPopCurrent())) == int(second)
    assert int(call(cu.cuCtxGetCurrent())) == int(first)
    call(cu.cuCtxDestroy(second))
    assert code(cu.cuCtxPushCurrent(second)) == "INVALID_CONTEXT"
