"""What a recording holds: the operations in the order of the calls, as plain data."""

import json

import numpy as np
import pytest
from cuda.bindings import driver as cu
from driver_support import ADD_ONE, alloc, call, event, kernel, launch, pinned, stream, upload

from grader.vgpu import driver
from grader.vgpu.driver.memory import tell_host_writes


@pytest.fixture
def ops(device):
    taken = []
    with driver.record(taken.append):
        tell_host_writes()  # of memory that earlier tests have left: not of the program that is recorded here
        taken.clear()
        yield taken


def names(ops):
    return [op["op"] for op in ops]


def test_a_program_in_the_order_of_its_calls(ops):
    x = np.arange(4, dtype=np.uint32)
    function = kernel()
    d = upload(x)
    s, e = stream(), event()
    call(launch(function, d, np.uint32(4), grid=2, block=64, stream=s))
    call(cu.cuEventRecord(e, s))
    call(cu.cuStreamWaitEvent(0, e, 0))
    call(cu.cuMemsetD32Async(d, 9, 2, 0))
    call(cu.cuCtxSynchronize())
    call(cu.cuMemFree(d))
    assert names(ops) == [
        "module", "alloc", "copy", "stream", "event_create", "launch", "event", "wait", "set", "sync", "free",
    ]  # fmt: skip
    module, allocation, copy, made, _, ran, recorded, waited, filled, synced, freed = ops
    assert module["ptx"] == ADD_ONE
    assert (allocation["address"], allocation["nbytes"], allocation["kind"]) == (d, 16, "device")
    assert (copy["kind"], copy["dst"], copy["data"], copy["stream"], copy["async"]) == ("h2d", d, x.tobytes(), 0, False)
    assert made["kind"] == "nonblocking"
    assert (ran["kernel"], ran["module"]) == ("add_one", module["module"])
    assert (ran["grid"], ran["block"]) == ([2, 1, 1], [64, 1, 1])
    assert ran["args"][:8] == d.to_bytes(8, "little")
    assert ran["params"] == [[0, 8], [8, 4]]
    assert ran["stream"] == made["stream"] == recorded["stream"] != 0
    assert (waited["event"], waited["stream"]) == (recorded["event"], 0)
    assert (filled["value"], filled["element"], filled["count"], filled["async"]) == (9, 4, 2, True)
    assert (synced["kind"], freed["address"]) == ("context", d)


def test_it_is_plain_data(ops):
    s = stream()
    call(launch(kernel(), upload(np.zeros(4, np.uint32)), np.uint32(4), stream=s))
    call(cu.cuStreamSynchronize(s))
    assert json.loads(json.dumps(ops, default=bytes.hex))


def test_what_the_host_writes_into_shared_memory_is_told_before_it_is_seen(ops):
    h = pinned(4096)
    h[:] = 0
    h[3] = 7
    d = alloc(h.nbytes)
    call(cu.cuMemcpyHtoDAsync(d, h.ctypes.data, h.nbytes, 0))
    assert names(ops) == ["alloc", "alloc", "host", "copy"]
    assert ops[3]["data"] is None
    assert ops[3]["src_device"] == -1
    assert np.frombuffer(ops[2]["data"], np.uint32)[3] == 7
    call(cu.cuMemsetD32Async(d, 5, 4096, 0))
    call(cu.cuMemcpyDtoHAsync(h.ctypes.data, d, h.nbytes, 0))
    call(cu.cuCtxSynchronize())
    assert h[0] == 5
    h[9] = 1
    call(cu.cuMemcpyHtoDAsync(d, h.ctypes.data, h.nbytes, 0))
    told = [op for op in ops if op["op"] == "host"][1:]
    assert [(op["address"], op["data"]) for op in told] == [(h.ctypes.data + 36, h[9].tobytes())]


@pytest.mark.parametrize("value", [0x12345678, 0x123456CB, 0xCB345678, 0xCBCBCBCA])
def test_what_is_told_of_a_number_does_not_depend_on_the_bytes_that_were_there_before(ops, value):
    h = pinned(3)
    h[:] = 0xCBCBCBCB
    d = alloc(h.nbytes)
    call(cu.cuMemcpyHtoDAsync(d, h.ctypes.data, h.nbytes, 0))
    before = len(ops)
    h[1] = value
    call(cu.cuMemcpyHtoDAsync(d, h.ctypes.data, h.nbytes, 0))
    told = [op for op in ops[before:] if op["op"] == "host"]
    assert [(op["address"], op["data"]) for op in told] == [(h.ctypes.data + 4, h[1].tobytes())]


def test_the_last_bytes_of_memory_that_is_no_whole_number_of_words_are_told_too(ops):
    h = pinned(6, np.uint8)
    h[:] = 1
    d = alloc(h.nbytes)
    call(cu.cuMemcpyHtoDAsync(d, h.ctypes.data, h.nbytes, 0))
    h[5] = 2
    call(cu.cuMemcpyHtoDAsync(d, h.ctypes.data, h.nbytes, 0))
    told = [op for op in ops if op["op"] == "host"][1:]
    assert [(op["address"], op["data"]) for op in told] == [(h.ctypes.data + 4, b"\1\2")]


def test_a_graph_is_told_when_it_is_instantiated(ops):
    function, d, s = kernel(), alloc(16), stream()
    call(cu.cuStreamBeginCapture(s, cu.CUstreamCaptureMode(2)))
    call(cu.cuMemsetD32Async(d, 1, 4, s))
    call(launch(function, d, np.uint32(4), stream=s))
    graph = call(cu.cuStreamEndCapture(s))
    assert names(ops) == ["module", "alloc", "stream"]
    made = call(cu.cuGraphInstantiate(graph, 0))
    call(cu.cuGraphLaunch(made, s))
    told, launched = ops[3:]
    assert [(node["op"], node["after"]) for node in told["nodes"]] == [("set", []), ("launch", [0])]
    assert all(node["enabled"] for node in told["nodes"])
    assert (launched["op"], launched["exec"], launched["stream"]) == ("graph_launch", told["exec"], ops[2]["stream"])


def test_a_failed_call_is_not_told(ops):
    assert cu.cuMemAlloc(0)[0] == cu.CUresult.CUDA_ERROR_INVALID_VALUE
    assert launch(kernel(), alloc(16), np.uint32(4), block=2048)[0] == cu.CUresult.CUDA_ERROR_INVALID_VALUE
    assert names(ops) == ["module", "alloc"]
