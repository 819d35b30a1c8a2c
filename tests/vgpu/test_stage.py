"""The memory and streams of a replay: what was made is given back, all of it or as far as it came."""

import pytest
from cuda.bindings import driver as cu
from driver_support import call

from grader import program as p
from grader.devices.driver import DeviceError
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
