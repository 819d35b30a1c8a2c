"""The memory and streams of a replay: what was made is given back, all of it or as far as it came."""

import numpy as np
import pytest
from cuda.bindings import driver as cu
from driver_support import call

from grader import program as p
from grader.devices.driver import DeviceError
from grader.devices.memory import FRESH
from grader.devices.stage import Contexts, Stage

MB = 1 << 20


def program(*buffers: p.Buffer, streams=()) -> p.Program:
    return p.Program(clock="device", buffers=buffers, modules=(), blobs=(), streams=streams, ops=())


def contexts() -> Contexts:
    return Contexts([call(cu.cuDevicePrimaryCtxRetain(n)) for n in range(2)])


@pytest.fixture
def two():
    made = contexts()
    yield made
    for ordinal in range(2):
        call(cu.cuDevicePrimaryCtxRelease(ordinal))


def free_on(made: Contexts) -> list[int]:
    return [call(cu.cuMemGetInfo())[0] for _ in made.each()]


def test_memory_and_streams_are_there_until_the_end(two):
    before = free_on(two)
    buffers = p.Buffer(4 * MB, "device", "temp"), p.Buffer(MB, "device", "temp", device=1)
    with Stage(program(*buffers, streams=("legacy", "non-blocking")), two, guard=0, flush=2 * MB) as stage:
        assert [b - f for b, f in zip(before, free_on(two), strict=True)] == [6 * MB, MB]
        call(cu.cuStreamQuery(stage.streams[1]))
    assert free_on(two) == before
    assert int(cu.cuStreamQuery(stage.streams[1])[0]) == cu.CUresult.CUDA_ERROR_INVALID_HANDLE


def test_too_little_memory_gives_back_what_was_made(two):
    before = free_on(two)
    buffers = [p.Buffer(n, "device", "temp", device=d) for n, d in ((MB, 0), (MB, 1), (1 << 46, 1))]
    with pytest.raises(DeviceError, match="OUT_OF_MEMORY"):
        Stage(program(*buffers), two, guard=0, flush=0)
    assert free_on(two) == before
    assert int(call(cu.cuCtxGetDevice())) == 0


def test_nobody_finds_on_a_real_card_what_was_there_before(two, monkeypatch):
    """Guard bands tell a real card; a virtual one has no memory that was somebody's."""
    buffers, held = [p.Buffer(256, "device", "temp"), p.Buffer(256, "managed", "temp")], []
    free = cu.cuMemFree
    monkeypatch.setattr(cu, "cuMemFree", lambda base: (held.append(bytes_at(base, 256)), free(base))[1])
    with Stage(program(*buffers), two, guard=128, flush=0) as stage:
        for memory in stage.memory:
            memory.prepare(b"answer !" * 32, None)
    assert held == [bytes([FRESH]) * 256] * 2
    held.clear()
    with Stage(program(buffers[0]), two, guard=0, flush=0) as stage:
        stage.memory[0].prepare(b"answer !" * 32, None)
    assert held == [b"answer !" * 32]


def bytes_at(base: int, nbytes: int) -> bytes:
    out = np.zeros(nbytes, np.uint8)
    call(cu.cuMemcpyDtoH(out.ctypes.data, base, nbytes))
    return out.tobytes()
