"""Programs of several devices: recorded, listed, and replayed with other inputs."""

from dataclasses import replace

import numpy as np
import pytest
from test_host import HEAD, problem

from grader import listing
from grader.bench import Bench
from grader.devices import Run
from grader.grade import grade
from grader.rules import correct_host
from grader.submission import Cell


@pytest.fixture(scope="module")
def pair():
    with Bench("virtual:a100*2") as found:
        yield found


def two(x: str = "pinned", y: str = "pinned"):
    """y = 2 x, on a machine of two GPUs."""
    one = problem(x, y)
    return replace(one, entry=replace(one.entry, devices=2), rubric=correct_host(8, 2))


def source(body: str) -> list[Cell]:
    return [
        Cell(
            "submission.py", HEAD + "def solve(x, y):\n" + "".join(f"    {line}\n" for line in body.strip().split("\n"))
        )
    ]


WAYS = {
    "half on each": (
        ["alloc", "copy", "launch", "copy"],
        """
half = x.size // 2
for k, part in enumerate((slice(0, half), slice(half, None))):
    cuda.select_device(k)
    d = cuda.to_device(x[part])
    twice[1, 128](d, d)
    d.copy_to_host(y[part])
        """,
    ),
    "streams and events across devices": (
        ["alloc", "alloc", "copy", "record", "wait", "copy", "launch", "copy", "sync"],
        """
from cuda.bindings import driver as cu
a, ready = cuda.stream(), cuda.event()
d0 = cuda.device_array(x.size, np.float32)
with cuda.gpus[1]:
    b = cuda.stream()
    d1 = cuda.device_array(x.size, np.float32)
d0.copy_to_device(x, stream=a)
ready.record(a)
with cuda.gpus[1]:
    ready.wait(b)
    p0, p1 = (d.__cuda_array_interface__["data"][0] for d in (d0, d1))
    cu.cuMemcpyDtoDAsync(p1, p0, x.nbytes, int(b.handle.value) if hasattr(b.handle, "value") else int(b.handle))
    twice[1, 128, b](d1, d1)
    d1.copy_to_host(y, stream=b)
    b.synchronize()
        """,
    ),
    "a copy between peers": (
        ["alloc", "copy", "alloc", "copy", "sync", "launch", "copy"],
        """
from cuda.bindings import driver as cu
d0 = cuda.to_device(x)
_, c0 = cu.cuCtxGetCurrent()
cuda.select_device(1)
_, c1 = cu.cuCtxGetCurrent()
d1 = cuda.device_array(x.size, np.float32)
p0, p1 = (d.__cuda_array_interface__["data"][0] for d in (d0, d1))
cu.cuMemcpyPeerAsync(p1, c1, p0, c0, x.nbytes, 0)
cuda.synchronize()
twice[1, 128](d1, d1)
d1.copy_to_host(y)
        """,
    ),
    "a kernel that reads a peer's memory": (
        ["alloc", "copy", "peer", "alloc", "launch", "copy"],
        """
from cuda.bindings import driver as cu
d0 = cuda.to_device(x)
_, c0 = cu.cuCtxGetCurrent()
cuda.synchronize()
cuda.select_device(1)
cu.cuCtxEnablePeerAccess(c0, 0)
d1 = cuda.device_array(x.size, np.float32)
twice[1, 128](d0, d1)
d1.copy_to_host(y)
cu.cuCtxDisablePeerAccess(c0)
        """,
    ),
    "a graph on the second device": (
        ["alloc", "copy", "graph", "graph_launch", "sync", "copy"],
        """
device = Device(1); device.set_current()
cuda.select_device(1)
d = cuda.to_device(x)
s = device.create_stream()
gb = s.create_graph_builder().begin_building()
twice[1, 128, gb](d, d)
graph = gb.end_building().complete()
graph.launch(s)
s.sync()
d.copy_to_host(y)
        """,
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_way_across_devices_is_recorded_and_replayed_with_other_inputs(pair, way):
    kinds, body = WAYS[way]
    p = two()
    built = pair.record(source(body), p, p.cases)
    assert built.error is None, built.error.message
    program = built.programs[p.cases[0].name]
    assert (program.devices, built.live) == (2, "")
    left = iter([op.op for op in program.ops])
    assert all(op in left for op in kinds), [op.op for op in program.ops]
    inputs = p.inputs(np.random.default_rng(3), p.cases[0].sizes)
    runs = [Run(program, inputs, sanitize=True), Run(program, inputs), Run(program, inputs, timed=True)]
    results = pair.device.replay(runs)
    assert [r.fault for r in results] == [None] * 3
    for result in results:
        np.testing.assert_array_equal(result.outputs["y"], 2 * inputs["x"])
        assert result.findings == result.changed == result.overrun == result.late == ()
    assert results[2].seconds > 0
    assert ", device 1" in "\n".join(listing.lines(program))


def test_both_devices_work_at_the_same_time(pair):
    body = """
d = []
for k in (0, 1):
    cuda.select_device(k)
    s = cuda.stream()
    d.append((s, cuda.to_device(x, stream=s), cuda.device_array(x.size, np.float32)))
for k in (0, WHERE) * 20:
    cuda.select_device(k)
    s, a, b = d[k]
    slowly[1, 128, s](a, b)
for k in (0, 1):
    cuda.select_device(k)
    d[k][0].synchronize()
cuda.select_device(0)
d[0][2].copy_to_host(y)
    """
    p, seconds = two(), []
    for where in ("0", "1"):
        built = pair.record(source(body.replace("WHERE", where)), p, p.cases)
        program = built.programs[p.cases[0].name]
        (result,) = pair.device.replay([Run(program, p.inputs(np.random.default_rng(1), p.cases[0].sizes), timed=True)])
        seconds.append(result.counters["kernels_us"])
    assert seconds[1] < 0.7 * seconds[0]


def test_memory_of_another_device_that_is_no_peer_is_a_fault(pair):
    body = """
d0 = cuda.to_device(x)
cuda.synchronize()
cuda.select_device(1)
d1 = cuda.device_array(x.size, np.float32)
twice[1, 128](d0, d1)
d1.copy_to_host(y)
    """
    p = two()
    built = pair.record(source(body), p, p.cases)
    assert built.error.code == "RTE" and "line 11" in built.error.message


def test_a_race_between_devices_is_found(pair):
    body = """
d0 = cuda.to_device(np.zeros(x.size, np.float32))
a = cuda.stream()
cuda.synchronize()
d0.copy_to_device(x, stream=a)
from cuda.bindings import driver as cu
with cuda.gpus[1]:
    d1 = cuda.device_array(x.size, np.float32)
    b = cuda.stream()
    p0, p1 = (d.__cuda_array_interface__["data"][0] for d in (d0, d1))
    cu.cuMemcpyDtoDAsync(p1, p0, x.nbytes, int(b.handle.value) if hasattr(b.handle, "value") else int(b.handle))
    twice[1, 128, b](d1, d1)
    d1.copy_to_host(y, stream=b)
    b.synchronize()
a.synchronize()
    """
    verdict = grade(source(body), two(), pair, 3)
    assert verdict.code == "RTE"
    assert next(c for c in verdict.checks if c.name == "race_free").passed is False


def test_an_exercise_of_one_device_refuses_another_in_a_sentence(pair, bench):
    p = problem("pinned", "pinned")
    built = pair.record(source("cuda.select_device(1)\nd = cuda.to_device(x)"), p, p.cases)
    assert built.error.message.endswith("GPU 1 is used, and the machine of this exercise has one GPU")
    assert "line 31" in built.error.message
    with pytest.raises(ValueError, match=r"needs a machine of 2 GPUs, and this one has 1: --device virtual:a100\*2"):
        bench.record(source("pass"), two(), p.cases)
