"""Host functions: whatever way they take, the recording replays it with inputs that the function never saw."""

import numpy as np
import pytest

from grader.devices import Run
from grader.problems.model import Array, Case, HostFunction, Problem
from grader.submission import Cell

N = 96
HEAD = """
import numpy as np
from cuda.core import Device
from cuda.core.graph import GraphBuilder
from numba import cuda

@cuda.jit
def twice(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] + x[i]

@cuda.jit
def slowly(x, y):
    i = cuda.grid(1)
    if i < x.size:
        v = x[i]
        for _ in range(200):
            v = v * 2 - x[i]
        y[i] = v + x[i]

class View:
    def __init__(self, address, n=96):
        self.__cuda_array_interface__ = {"shape": (n,), "typestr": "<f4", "data": (int(address), False), "version": 3}

def array(address, n=96):
    return cuda.as_cuda_array(View(address, n), sync=False)

"""


def problem(x: str, y: str) -> Problem:
    """y = 2 x; `x` and `y` say where they lie."""
    shape = (lambda s: (s["n"],),)
    params = Array("x", *shape, where=x), Array("y", *shape, "output", where=y)
    return Problem(
        name="99_twice", title="", statement="", entry=HostFunction("solve", params), cases=(Case({"n": N}),),
        secret=lambda rng: [], inputs=lambda rng, s: {"x": rng.uniform(1, 2, s["n"]).astype("f4")},
        reference=lambda inputs, s: {"y": 2 * inputs["x"].astype("f8")}, rubric=(), hints=("", "", ""),
    )  # fmt: skip


def cells(body: str) -> list[Cell]:
    source = HEAD + "def solve(x, y):\n" + "".join(f"    {line}\n" for line in body.strip().split("\n"))
    return [Cell("submission.py", source)]


def record(bench, body: str, x: str = "pinned", y: str = "pinned"):
    p = problem(x, y)
    return p, bench.record(cells(body), p, p.cases)


def played(bench, body: str, *, x: str = "pinned", y: str = "pinned", **options):
    p, built = record(bench, body, x, y)
    assert built.error is None, built.error.message
    program = built.programs[p.cases[0].name]
    inputs = p.inputs(np.random.default_rng(3), p.cases[0].sizes)
    (result,) = bench.device.replay([Run(program, inputs, **options)])
    return program, inputs["x"], result


def kinds(program) -> list[str]:
    return [op.op for op in program.ops]


WAYS = {
    "plain": (
        "pageable", "pageable", ["alloc", "copy", "alloc", "launch", "copy"],
        """
d_x, d_y = cuda.to_device(x), cuda.device_array(x.size, np.float32)
twice[1, 128](d_x, d_y)
d_y.copy_to_host(y)
        """,
    ),
    "numba's implicit copies": (
        "pageable", "pageable", ["alloc", "copy", "alloc", "copy", "launch", "copy", "copy"], "twice[1, 128](x, y)",
    ),
    "streams and events": (
        "pinned", "pinned", ["alloc", "alloc", "copy", "record", "wait", "launch", "copy", "sync"],
        """
free, a, ready = Device().create_stream(), cuda.stream(), cuda.event()
b = cuda.external_stream(int(free.handle))
d_x, d_y = cuda.device_array(x.size, np.float32), cuda.device_array(x.size, np.float32)
d_x.copy_to_device(x, stream=a)
ready.record(a)
ready.wait(b)
twice[1, 128, b](d_x, d_y)
d_y.copy_to_host(y, stream=b)
free.sync()
        """,
    ),
    "staging through pinned memory of its own": (
        "pageable", "pageable", ["alloc", "alloc", "host_copy", "launch", "sync", "host_copy"],
        """
p, q = cuda.mapped_array(x.size, np.float32), cuda.mapped_array(x.size, np.float32)
p[:] = x
twice[1, 128](p, q)
cuda.synchronize()
y[:] = q
        """,
    ),
    "a result in memory of its own": (
        "pageable", "pinned", ["alloc", "copy", "alloc", "launch", "copy", "host_copy"],
        """
d_x, d_y = cuda.to_device(x.copy()[:]), cuda.device_array(x.size, np.float32)
twice[1, 128](d_x, d_y)
y[:] = d_y.copy_to_host()
        """,
    ),
    "page-locked in place": (
        "pageable", "pageable", ["register", "register", "alloc", "copy", "alloc", "launch", "copy", "sync"],
        """
with cuda.pinned(x, y):
    s = cuda.stream()
    d_x, d_y = cuda.to_device(x, stream=s), cuda.device_array(x.size, np.float32, stream=s)
    twice[1, 128, s](d_x, d_y)
    d_y.copy_to_host(y, stream=s)
    s.synchronize()
        """,
    ),
    "constants and initial values": (
        "pinned", "pinned", ["alloc", "copy", "host_write", "copy", "launch", "copy"],
        """
d_x = cuda.to_device(np.zeros(x.size, np.float32))
y[:] = 7
d_x.copy_to_device(x)
twice[1, 128](d_x, d_x)
d_x.copy_to_host(y)
        """,
    ),
    "stream-ordered memory": (
        "pinned", "pinned", ["alloc", "copy", "launch", "copy", "free", "sync"],
        """
device = Device(); device.set_current()
s = device.create_stream()
n = cuda.external_stream(int(s.handle))
buffer = device.allocate(x.nbytes, stream=s)
d = array(buffer.handle)
d.copy_to_device(x, stream=n)
twice[1, 128, s](d, d)
d.copy_to_host(y, stream=n)
buffer.close(s)
s.sync()
        """,
    ),
    "a stream of another priority": (
        "pinned", "pinned", ["copy", "launch", "copy", "sync"],
        """
from cuda.core import StreamOptions
s = Device().create_stream(options=StreamOptions(priority=-1))
n = cuda.external_stream(int(s.handle))
d = cuda.device_array(x.size, np.float32)
d.copy_to_device(x, stream=n)
twice[1, 128, s](d, d)
d.copy_to_host(y, stream=n)
s.sync()
        """,
    ),
    "pinned memory from a pool": (
        "pinned", "pinned", ["alloc", "copy", "launch", "copy", "sync"],
        """
from cuda.core import PinnedMemoryResource, PinnedMemoryResourceOptions
device = Device(); device.set_current()
s = device.create_stream()
n = cuda.external_stream(int(s.handle))
staging = PinnedMemoryResource(options=PinnedMemoryResourceOptions()).allocate(x.nbytes, stream=s)
h = np.from_dlpack(staging).view(np.float32)
d = cuda.device_array(x.size, np.float32)
d.copy_to_device(x, stream=n)
twice[1, 128, s](d, d)
d.copy_to_host(h, stream=n)
s.sync()
y[:] = h
        """,
    ),
    "managed memory": ("managed", "managed", ["launch", "sync"], "twice[1, 128](x, y)\ncuda.synchronize()"),
    "managed memory with advice and prefetches": (
        "managed", "managed", ["advise", "prefetch", "launch", "prefetch", "sync"],
        """
from cuda.core import ManagedBuffer, Host
device = Device(); device.set_current()
s = device.create_stream()
a = ManagedBuffer.from_handle(x.ctypes.data, x.nbytes, owner=x)
b = ManagedBuffer.from_handle(y.ctypes.data, y.nbytes, owner=y)
a.read_mostly = True
a.prefetch(device, stream=s)
twice[1, 128, s](x, y)
b.prefetch(Host(), stream=s)
s.sync()
        """,
    ),
    "rows of a matrix": (
        "pinned", "pinned", ["alloc", "alloc", "copy", "fill", "launch", "copy"],
        """
from cuda.bindings import driver as cu
rows, pitch, width = 4, 512, 96
_, a = cu.cuMemAlloc(rows * pitch)
d_y = cuda.device_array(x.size, np.float32)
p = cu.CUDA_MEMCPY2D()
p.srcMemoryType, p.srcHost, p.srcPitch = cu.CUmemorytype.CU_MEMORYTYPE_HOST, x.ctypes.data, width
p.dstMemoryType, p.dstDevice, p.dstPitch = cu.CUmemorytype.CU_MEMORYTYPE_DEVICE, a, pitch
p.WidthInBytes, p.Height = width, rows
cu.cuMemcpy2D(p)
cu.cuMemsetD2D8(int(a) + width, pitch, 0, 16, rows)
for r in range(rows):
    twice[1, 24](array(int(a) + r * pitch, 24), d_y[24 * r : 24 * r + 24])
d_y.copy_to_host(y)
        """,
    ),
    "a captured graph, launched twice": (
        "pinned", "pinned", ["alloc", "alloc", "alloc", "graph", "graph_launch", "graph_launch", "sync"],
        """
d_x, d_t, d_y = (cuda.device_array(x.size, np.float32) for _ in range(3))
device = Device(); device.set_current()
s = device.create_stream()
gb = s.create_graph_builder().begin_building()
n = cuda.external_stream(int(gb.stream.handle))
d_x.copy_to_device(x, stream=n)
left, right = gb.split(2)
twice[1, 128, left](d_x, d_t)
slowly[1, 128, right](d_x, d_y)
gb = GraphBuilder.join(left, right)
d_y.copy_to_host(y, stream=cuda.external_stream(int(gb.stream.handle)))
graph = gb.end_building().complete()
graph.launch(s)
graph.launch(s)
s.sync()
        """,
    ),
    "a graph made node by node": (
        "pinned", "pinned", ["alloc", "graph", "graph_launch", "sync", "launch", "copy"],
        """
from cuda.bindings import driver as cu
d = cuda.device_array(x.size + 2, np.float32)
_, context = cu.cuCtxGetCurrent()
_, g = cu.cuGraphCreate(0)
m = cu.CUDA_MEMSET_NODE_PARAMS()
m.dst, m.value, m.elementSize, m.width, m.height = d.__cuda_array_interface__["data"][0], 0, 4, d.size, 1
_, first = cu.cuGraphAddMemsetNode(g, None, 0, m, context)
p = cu.CUDA_MEMCPY3D()
p.srcMemoryType, p.srcHost = cu.CUmemorytype.CU_MEMORYTYPE_HOST, x.ctypes.data
p.dstMemoryType, p.dstDevice = cu.CUmemorytype.CU_MEMORYTYPE_DEVICE, int(m.dst) + 4
p.WidthInBytes, p.Height, p.Depth = x.nbytes, 1, 1
_, second = cu.cuGraphAddMemcpyNode(g, [first], 1, p, context)
_, third = cu.cuGraphAddEmptyNode(g, [first, second], 2)
_, e = cu.cuGraphInstantiate(g, 0)
s = Device().create_stream()
cu.cuGraphLaunch(e, int(s.handle))
s.sync()
twice[1, 128](d[1:97], d[1:97])
d[1:97].copy_to_host(y)
        """,
    ),
    "a graph within a graph": (
        "pinned", "pinned", ["alloc", "graph", "graph_launch", "sync", "launch", "copy"],
        """
from cuda.bindings import driver as cu
d = cuda.device_array(x.size, np.float32)
_, context = cu.cuCtxGetCurrent()
at = d.__cuda_array_interface__["data"][0]
_, inner = cu.cuGraphCreate(0)
p = cu.CUDA_MEMCPY3D()
p.srcMemoryType, p.srcHost = cu.CUmemorytype.CU_MEMORYTYPE_HOST, x.ctypes.data
p.dstMemoryType, p.dstDevice = cu.CUmemorytype.CU_MEMORYTYPE_DEVICE, at
p.WidthInBytes, p.Height, p.Depth = x.nbytes, 1, 1
cu.cuGraphAddMemcpyNode(inner, None, 0, p, context)
_, g = cu.cuGraphCreate(0)
m = cu.CUDA_MEMSET_NODE_PARAMS()
m.dst, m.value, m.elementSize, m.width, m.height = at, 0, 4, d.size, 1
_, first = cu.cuGraphAddMemsetNode(g, None, 0, m, context)
_, second = cu.cuGraphAddChildGraphNode(g, [first], 1, inner)
_, third = cu.cuGraphAddEmptyNode(g, [second], 1)
_, e = cu.cuGraphInstantiate(g, 0)
s = Device().create_stream()
cu.cuGraphLaunch(e, int(s.handle))
s.sync()
twice[1, 128](d, d)
d.copy_to_host(y)
        """,
    ),
    "a node that is switched off, and on again, and off": (
        "pinned", "pinned", ["graph", "graph_update", "graph_launch", "graph_update", "graph_update", "graph_launch", "copy"],
        """
from cuda.bindings import driver as cu
d, s = cuda.to_device(x), Device().create_stream()
_, context = cu.cuCtxGetCurrent()
_, g = cu.cuGraphCreate(0)
m = cu.CUDA_MEMSET_NODE_PARAMS()
m.dst, m.value, m.elementSize, m.width, m.height = d.__cuda_array_interface__["data"][0], 0, 4, d.size, 1
_, node = cu.cuGraphAddMemsetNode(g, None, 0, m, context)
_, e = cu.cuGraphInstantiate(g, 0)
cu.cuGraphExecMemsetNodeSetParams(e, node, m, context)
for on in (0, 1, 0):
    assert not cu.cuGraphNodeSetEnabled(e, node, on)[0]
    if not on:
        cu.cuGraphLaunch(e, int(s.handle))
s.sync()
twice[1, 128](d, d)
d.copy_to_host(y)
        """,
    ),
    "memory that a graph allocates": (
        "pinned", "pinned", ["alloc", "graph", "graph_launch", "graph_launch", "sync", "launch", "copy"],
        """
from cuda.bindings import driver as cu
d, s = cuda.device_array(x.size, np.float32), Device().create_stream()
_, context = cu.cuCtxGetCurrent()
_, g = cu.cuGraphCreate(0)
a = cu.CUDA_MEM_ALLOC_NODE_PARAMS()
a.bytesize = x.nbytes
a.poolProps.allocType = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
a.poolProps.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
_, first = cu.cuGraphAddMemAllocNode(g, None, 0, a)
p = cu.CUDA_MEMCPY3D()
p.srcMemoryType, p.srcHost = cu.CUmemorytype.CU_MEMORYTYPE_HOST, x.ctypes.data
p.dstMemoryType, p.dstDevice = cu.CUmemorytype.CU_MEMORYTYPE_DEVICE, int(a.dptr)
p.WidthInBytes, p.Height, p.Depth = x.nbytes, 1, 1
_, second = cu.cuGraphAddMemcpyNode(g, [first], 1, p, context)
p.srcMemoryType, p.srcDevice = cu.CUmemorytype.CU_MEMORYTYPE_DEVICE, int(a.dptr)
p.dstDevice = d.__cuda_array_interface__["data"][0]
_, third = cu.cuGraphAddMemcpyNode(g, [second], 1, p, context)
cu.cuGraphAddMemFreeNode(g, [third], 1, a.dptr)
_, e = cu.cuGraphInstantiate(g, 0)
cu.cuGraphLaunch(e, int(s.handle))
cu.cuGraphLaunch(e, int(s.handle))
s.sync()
twice[1, 128](d, d)
d.copy_to_host(y)
        """,
    ),
    "a graph that is updated": (
        "pinned", "pinned", ["alloc", "copy", "alloc", "graph", "graph_launch", "graph_update", "graph_launch", "copy"],
        """
d_x, d_y, d_z = cuda.to_device(x), *(cuda.device_array(x.size, np.float32) for _ in range(2))
device = Device(); device.set_current()
s = device.create_stream()
def captured(a, b):
    gb = s.create_graph_builder().begin_building()
    twice[1, 128, gb](a, b)
    return gb.end_building()
graph = captured(d_x, d_z).complete()
graph.launch(s)
graph.update(captured(d_x, d_y))
graph.launch(s)
d_y.copy_to_host(y, stream=cuda.external_stream(int(s.handle)))
s.sync()
        """,
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_a_way_is_recorded_and_replayed_with_other_inputs(bench, way):
    x, y, ops, body = WAYS[way]
    program, given, result = played(bench, body, x=x, y=y, sanitize=True)
    assert result.fault is None
    assert result.findings == ()
    np.testing.assert_array_equal(result.outputs["y"], 2 * given)
    assert result.changed == result.overrun == result.late == ()
    left = iter(kinds(program))
    assert all(op in left for op in ops), kinds(program)  # in this order, among others


def test_a_table_made_before_the_call_is_part_of_the_program(bench):
    body = "twice[1, 128](TABLE, TABLE)\nd = cuda.to_device(x)\ntwice[1, 128](d, d)\nd.copy_to_host(y)"
    p = problem("pinned", "pinned")
    source = HEAD + "TABLE = cuda.to_device(np.arange(4, dtype=np.float32))\nUNUSED = cuda.device_array(9)\n"
    source += "def solve(x, y):\n" + "".join(f"    {line}\n" for line in body.split("\n"))
    built = bench.record([Cell("submission.py", source)], p, p.cases)
    assert built.error is None, built.error.message
    program = built.programs[p.cases[0].name]
    (table,) = [b for b in program.buffers if b.initial is not None]
    assert np.frombuffer(program.blobs[table.initial], "<f4").tolist() == [0, 1, 2, 3]


def test_the_priority_of_a_stream_is_kept(bench):
    program, _, _ = played(bench, WAYS["a stream of another priority"][3])
    assert dict(zip(program.streams, program.priorities, strict=True))["non-blocking"] == -1


def test_blocking_copies_and_calls_cost_the_hosts_time(bench):
    fast = "d = cuda.to_device(x)\ntwice[1, 128](d, d)\nd.copy_to_host(y)"
    more = fast + "\nd.copy_to_host(y)"
    (_, _, once), (_, _, again) = (played(bench, body, timed=True) for body in (fast, more))
    assert 5e-6 < again.seconds - once.seconds < 2e-5  # a copy's latency


def test_what_the_host_copies_itself_costs_time(bench):
    body = "d = cuda.to_device(x)\ntwice[1, 128](d, d)\nd.copy_to_host(y)"
    staged = "p = np.empty_like(x)\n" + body.replace("(y)", "(p)") + "\ny[:] = p"
    program, _, result = played(bench, staged, x="pageable", y="pageable", timed=True)
    assert kinds(program)[-1] == "host_copy"
    assert result.seconds > played(bench, body, x="pageable", y="pageable", timed=True)[2].seconds


def test_pageable_copies_are_slower_and_do_not_overlap(bench):
    body = "d = cuda.to_device(x)\ntwice[1, 128](d, d)\nd.copy_to_host(y)"
    times = [played(bench, body, x=where, y=where, timed=True)[2].seconds for where in ("pinned", "pageable")]
    assert times[0] < times[1]


def test_the_timeline_of_the_timed_part_is_told(bench):
    (_, _, result) = played(bench, "d = cuda.to_device(x)\ntwice[1, 128](d, d)\nd.copy_to_host(y)", timed=True)
    assert result.counters["copies_overlapped"] == 0
    assert 10 < result.counters["copies_us"] < 30  # two of 8 us latency
    assert 0 < result.counters["kernels_us"] < 10


def test_a_result_that_comes_after_the_return_is_late(bench):
    body = "s = cuda.stream()\nd = cuda.to_device(x, stream=s)\ntwice[1, 128, s](d, d)\nd.copy_to_host(y, stream=s)"
    _, given, result = played(bench, body)
    np.testing.assert_array_equal(result.outputs["y"], 2 * given)
    assert result.late == ("y",)


def test_an_event_that_nobody_waits_for_shows_in_the_values(bench):
    body = """
a, b = cuda.stream(), cuda.stream()
d_x, d_y = cuda.to_device(np.zeros(x.size, np.float32)), cuda.device_array(x.size, np.float32)
d_x.copy_to_device(x, stream=a)
twice[1, 128, b](d_x, d_y)
d_y.copy_to_host(y, stream=b)
cuda.synchronize()
    """
    _, given, result = played(bench, body)
    assert (result.outputs["y"] != 2 * given).all()


UNSTEADY = {
    "memory kept from call to call": (
        "global kept\nif 'kept' not in globals():\n    kept = cuda.device_array(96, np.float32)\ntwice[1, 32](kept, kept)",
        "the first difference is an allocation",
    ),
    "a memory of earlier numbers": (
        "global seen\nseen = globals().get('seen', 0) + 1\nfor _ in range(seen):\n    twice[1, 32](cuda.to_device(x), cuda.to_device(x))",
        "(line 33)",
    ),
    "chance": (
        "import random\nfor _ in range(9):\n    twice[1, random.randrange(32, 800)](cuda.to_device(x), cuda.to_device(x))",
        "(block; line 32)",
    ),
    "the time": (
        "import time\ny.view('u8')[:] = time.perf_counter_ns()\ntwice[1, 32](cuda.to_device(x), cuda.to_device(x))",
        "384 bytes",
    ),
    "an address": (
        "global first\nfirst = globals().get('first', x)\n"
        "twice[1, 32 + (x.ctypes.data != first.ctypes.data)](cuda.to_device(x), cuda.to_device(x))",
        "(block; line 32)",
    ),
    "a kernel of its own in every call": (
        "@cuda.jit\ndef mine(x):\n    x[0] = 1\nmine[1, 1](cuda.to_device(x))", "define kernels outside",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", UNSTEADY)
def test_what_changes_though_the_numbers_do_not_is_refused_in_one_sentence(bench, what):
    body, words = UNSTEADY[what]
    _, built = record(bench, body)
    assert built.error.code == "RTE"
    assert "though the numbers in its arrays are the same" in built.error.message and "\n" not in built.error.message
    assert words in built.error.message
    assert built.flags == ("the host's code does not ask for the same twice",)


def test_a_submission_that_forges_the_comparison_gains_wrong_values(bench):
    forge = "import grader.host\ngrader.host.difference = lambda one, other: ''\n"
    p = problem("pinned", "pinned")
    body = "    twice[1, 128](cuda.to_device(x), cuda.device_array(96, np.float32))\n    y[:] = 2 * x\n"
    built = bench.record([Cell("submission.py", HEAD + forge + "def solve(x, y):\n" + body)], p, p.cases)
    assert built.error is None
    inputs = p.inputs(np.random.default_rng(3), p.cases[0].sizes)
    (result,) = bench.device.replay([Run(built.programs[p.cases[0].name], inputs)])
    assert (result.outputs["y"] != 2 * inputs["x"]).all()


@pytest.mark.parametrize(
    "body",
    [
        "R.end = lambda self: 7",
        "R.begin = lambda self, d, clock: None",
        "p.Program.make = lambda *a, **k: real(*a, **k | {'clock': 'device'})",
    ],
)
def test_a_forged_recording_is_refused(bench, body):
    forge = "from grader import program as p\nfrom grader.recording import Recorder as R\nreal = p.Program.make\n"
    source = HEAD + forge + body + "\ndef solve(x, y):\n    twice[1, 128](cuda.to_device(x), cuda.to_device(x))\n"
    p = problem("pinned", "pinned")
    assert bench.record([Cell("submission.py", source)], p, p.cases).error.code in ("RTE", "CE")


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ("1 / 0", "RTE", "solve failed: line 30: ZeroDivisionError"),
        ("twice[1, 128](x)", "RTE", "argument"),
        (
            "@cuda.jit\ndef k(x):\n    while x[0] > 0: pass\nd = cuda.to_device(x)\nk[1, 1](d)\ncuda.synchronize()",
            "TLE",
            "line 35",
        ),
        ("{}['x']", "RTE", "line 30: KeyError: 'x'"),
        ("d = cuda.device_array(8, np.float32)\ntwice[1, 4096](d, d)", "RTE", "at most 1024 threads a block"),
        (
            "@cuda.jit\ndef k(x):\n    x[0] = nothing\nk[1, 1](x)",
            "CE",
            "line 32: NameError: name 'nothing' is not defined",
        ),
        (
            "d = cuda.device_array(8, np.float32)\ntwice[1, 32](cuda.device_array(99, np.float32), d)\ncuda.synchronize()",
            "RTE",
            "line 11: thread",
        ),
        (
            "s = Device().create_stream()\ngb = s.create_graph_builder().begin_building()\ns.sync()",
            "RTE",
            "STREAM_CAPTURE_UNSUPPORTED",
        ),
    ],
)
def test_a_call_that_fails_is_told_with_its_line(bench, body, code, words):
    _, built = record(bench, body)
    assert built.error.code == code
    assert words in built.error.message


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("", "does not define solve(x, y)"),
        ("solve = 7", "solve is an int: the exercise asks for a plain Python function solve(x, y)"),
        ("from numba import cuda\n@cuda.jit\ndef solve(x, y): pass", "solve is a kernel"),
        ("def solve(x): pass", "takes 1 parameter (x); it is called as solve(x, y)"),
    ],
)
def test_what_is_no_such_function_is_said(bench, source, words):
    p = problem("pinned", "pinned")
    error = bench.record([Cell("submission.py", source)], p, p.cases).error
    assert error.code == "CE" and words in error.message
