"""Programs survive a round trip; what a hostile process sends as one does not get through."""

import copy
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader import program as p
from grader.addresses import Declared
from grader.program import (
    Advise,
    Alloc,
    Buffer,
    Copy,
    Fill,
    Free,
    Graph,
    GraphLaunch,
    GraphUpdate,
    HostCopy,
    HostWrite,
    Launch,
    Node,
    Peer,
    Place,
    Prefetch,
    Program,
    ProgramError,
    Record,
    Register,
    Relocation,
    Sync,
    Unregister,
    Wait,
)
from grader.recording import Recorder

PTX = b".version 8.0\n.target sm_80\n.visible .entry k() { ret; }\n"


def sample() -> Program:
    return Program.make(
        [
            Buffer(16, "device", "input", "x", "<f4", (4,)),
            Buffer(16, "device", "output", "y", "<f4", (4,)),
            Buffer(8, "managed", "temp", initial=0),
            Buffer(16, "pageable", "temp"),
            Buffer(64, "device", "temp"),
            Buffer(16, "device", "temp", device=1),
        ],
        [PTX],
        [
            Launch(0, "k", (1, 2, 3), (32, 1, 1), 0, bytes(24), (Relocation(0, 0, 4), Relocation(8, 1, 16)), 1),
            Copy(Place(1, 8), Place(0, 0), 8, stream=1),
            Copy(Place(2, 0), None, 8, blob=0, blocking=True),
            Fill(Place(1, 0), 4, 7, 4),
            Record(3, 1),
            Wait(0, 3),
            Sync("stream", 1),
            Alloc(4, 1),
            Copy(Place(4, 0), Place(0, 0), 4, rows=3, to_pitch=16, source_pitch=4),
            Fill(Place(4, 0), 2, 7, 4, 1, rows=2, pitch=32),
            Graph(
                0,
                (Node(Copy(Place(1, 0), Place(4, 0), 8)), Node(None, (0,)), Node(Fill(Place(1, 0), 1, 0, 4), (1,))),
                1,
            ),
            GraphUpdate(
                0,
                (
                    *(Node(Copy(Place(1, 0), Place(4, 8), 8)), Node(None, (0,))),
                    Node(Fill(Place(1, 0), 1, 0, 4), (1,), enabled=False),
                ),
            ),
            GraphLaunch(0, 1),
            Free(4, 1),
            HostWrite(Place(3, 8), 0),
            HostCopy(Place(3, 0), Place(2, 0), 8),
            Register(Place(3, 0), 16),
            Unregister(Place(3, 0)),
            Prefetch(Place(2, 0), 8, "device", 1),
            Advise(Place(2, 0), 8, "unset_read_mostly", "host"),
            Peer(1, 0, True),
            Copy(Place(1, 0), Place(5, 0), 16, stream=2),
            Prefetch(Place(2, 0), 8, "device:1"),
            Sync("context", 1),
        ],
        blobs=(b"12345678",),
        streams=("legacy", "non-blocking", "legacy"),
        priorities=(0, -2, 0),
        stream_devices=(0, 0, 1),
        devices=2,
        clock="host",
    )


def test_a_saved_program_loads_as_it_was(tmp_path):
    sample().save(tmp_path / "a.prog")
    assert Program.load(tmp_path / "a.prog") == sample()
    assert Program.load(tmp_path / "a.prog").digest() == sample().digest()


def test_the_header_is_json():
    header, blobs = sample().to_parts()
    assert Program.from_parts(json.loads(json.dumps(header)), blobs) == sample()


HOSTILE = {
    "no object": lambda h: [],
    "another version": lambda h: h | {"version": 99},
    "a version that is True": lambda h: h | {"version": True},
    "an extra key": lambda h: h | {"run": "me"},
    "more modules than blobs": lambda h: h | {"modules": 9},
    "buffers that are no list": lambda h: h | {"buffers": {}},
    "a buffer of no bytes": lambda h: put(h, "buffers", 0, "nbytes", 0),
    "a buffer of a petabyte": lambda h: put(h, "buffers", 0, "nbytes", 1 << 50),
    "a shape that does not fit": lambda h: put(h, "buffers", 0, "shape", [5]),
    "an object dtype": lambda h: put(h, "buffers", 0, "dtype", "|O"),
    "a nameless input": lambda h: put(h, "buffers", 0, "name", ""),
    "a name that is a path": lambda h: put(h, "buffers", 0, "name", "../x"),
    "two buffers of one name": lambda h: put(h, "buffers", 1, "name", "x"),
    "contents for an output": lambda h: put(h, "buffers", 1, "initial", 0),
    "contents that are not there": lambda h: put(h, "buffers", 2, "initial", 5),
    "an unknown operation": lambda h: put(h, "ops", 0, "op", "exec"),
    "an operation that is a list": lambda h: h | {"ops": [[]]},
    "a grid of 0 blocks": lambda h: put(h, "ops", 0, "grid", [0, 1, 1]),
    "a grid of two numbers": lambda h: put(h, "ops", 0, "grid", [1, 1]),
    "a block of a float": lambda h: put(h, "ops", 0, "block", [1.0, 1, 1]),
    "a kernel name with a quote": lambda h: put(h, "ops", 0, "kernel", 'k"'),
    "arguments that are no hex": lambda h: put(h, "ops", 0, "args", "zz"),
    "a relocation beyond the arguments": lambda h: put(h, "ops", 0, "relocations", [[17, 0, 0]]),
    "a relocation beyond the buffer": lambda h: put(h, "ops", 0, "relocations", [[0, 0, 17]]),
    "a relocation to no buffer": lambda h: put(h, "ops", 0, "relocations", [[0, 6, 0]]),
    "a stream that is not there": lambda h: put(h, "ops", 0, "stream", 3),
    "no devices": lambda h: h | {"devices": 0},
    "a thousand devices": lambda h: h | {"devices": 1000},
    "a device too few": lambda h: h | {"devices": 1},
    "a stream without a device": lambda h: h | {"stream_devices": [0, 0]},
    "a first stream on another device": lambda h: h | {"stream_devices": [1, 0, 1]},
    "a stream on a device that is not there": lambda h: h | {"stream_devices": [0, 0, 2]},
    "a buffer on a device that is not there": lambda h: put(h, "buffers", 5, "device", 2),
    "a peer that is not there": lambda h: put(h, "ops", 20, "peer", 2),
    "a peer of its own": lambda h: put(h, "ops", 20, "peer", 1),
    "a peer that is enabled by a word": lambda h: put(h, "ops", 20, "enabled", "yes"),
    "a prefetch to a device that is not there": lambda h: put(h, "ops", 22, "location", "device:2"),
    "a wait for a device that is not there": lambda h: put(h, "ops", 23, "id", 2),
    "a graph on a device that is not there": lambda h: put(h, "ops", 10, "device", 2),
    "an empty node that is switched off": lambda h: node(h, [None, [], False]),
    "a node that is half switched on": lambda h: node(h, [h["ops"][3], [], 0.5]),
    "a copy out of its buffer": lambda h: put(h, "ops", 1, "to", [1, 9]),
    "a copy before its buffer": lambda h: put(h, "ops", 1, "source", [0, -1]),
    "a copy from nowhere": lambda h: put(h, "ops", 1, "source", None),
    "a fill out of its buffer": lambda h: put(h, "ops", 3, "count", 5),
    "a fill with a wide value": lambda h: put(h, "ops", 3, "value", 1 << 32),
    "a priority too few": lambda h: h | {"priorities": [0]},
    "places that are paths": lambda h: h | {"places": [["../x", 1]] * len(h["ops"])},
    "a place too few": lambda h: h | {"places": [["cell 1", 1]]},
    "an unknown clock": lambda h: h | {"clock": "wall"},
    "a copy whose rows reach out of the buffer": lambda h: put(h, "ops", 8, "to_pitch", 32),
    "a copy whose rows overlap": lambda h: put(h, "ops", 8, "source_pitch", 2),
    "memory allocated twice": lambda h: h | {"ops": [h["ops"][7], *h["ops"]]},
    "memory used before it is allocated": lambda h: h | {"ops": [h["ops"][8], *h["ops"]]},
    "memory used after it was freed": lambda h: h | {"ops": [*h["ops"], h["ops"][8]]},
    "a graph launched again whose memory was freed": lambda h: (
        h | {"ops": [*h["ops"][:13], h["ops"][12], *h["ops"][13:], h["ops"][12]]}
    ),
    "a graph launched whose memory was freed": lambda h: h | {"ops": [*h["ops"], h["ops"][12]]},
    "an input that is freed": lambda h: put(h, "ops", 13, "buffer", 0),
    "pageable memory allocated on the device": lambda h: put(h, "ops", 7, "buffer", 3),
    "a graph that was never made": lambda h: put(h, "ops", 12, "exec", 5),
    "a graph made twice": lambda h: h | {"ops": [*h["ops"][:11], *h["ops"][10:]]},
    "a node after itself": lambda h: node(h, [None, [0], True]),
    "a node that is an event": lambda h: node(h, [{"op": "record", "event": 1, "stream": 0}, [], True]),
    "a node that is a graph": lambda h: node(h, [h["ops"][10], [], True]),
    "a node that copies bytes of its own": lambda h: node(
        h,
        [h["ops"][8] | {"source": None, "blob": 0, "nbytes": 8, "rows": 1, "to_pitch": 0, "source_pitch": 0}, [], True],
    ),
    "a host that writes to the device": lambda h: put(h, "ops", 14, "to", [0, 0]),
    "a host that reads the device": lambda h: put(h, "ops", 15, "source", [0, 0]),
    "device memory page-locked": lambda h: put(h, "ops", 16, "place", [0, 0]),
    "memory released that was not page-locked": lambda h: put(h, "ops", 17, "place", [3, 8]),
    "a prefetch of device memory": lambda h: put(h, "ops", 18, "place", [0, 0]),
    "a prefetch to the moon": lambda h: put(h, "ops", 18, "location", "moon"),
    "advice that is none": lambda h: put(h, "ops", 19, "advice", "hurry"),
    "the first stream not the default one": lambda h: h | {"streams": ["blocking", "legacy"]},
}


def put(header: dict, part: str, index: int, key: str, value) -> dict:
    header = copy.deepcopy(header)
    header[part][index][key] = value
    return header


def node(header: dict, value: list) -> dict:
    return put(header, "ops", 10, "nodes", [value])


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_headers_are_refused(what):
    header, blobs = sample().to_parts()
    with pytest.raises(ProgramError):
        Program.from_parts(HOSTILE[what](json.loads(json.dumps(header))), blobs)


@pytest.mark.parametrize(
    "ptx", [b"\x7fELF" + bytes(100), b"", "no .version: é".encode(), bytes(p.MAX_MODULE_BYTES + 1)]
)
def test_what_is_not_ptx_text_is_refused(ptx):
    header, blobs = sample().to_parts()
    with pytest.raises(ProgramError):
        Program.from_parts(header, [ptx, *blobs[1:]])


@pytest.mark.parametrize(
    "raw", [b"", b"CAMPPROG", b"CAMPPROG\xff\xff\xff\xff{}", b"CAMPPROG\x02\0\0\0{}", b"\x80\x04." * 9]
)
def test_files_that_are_no_programs_are_refused(tmp_path, raw):
    (tmp_path / "bad").write_bytes(p.MAGIC + raw if raw[:1] != b"\x80" else raw)
    with pytest.raises(ProgramError):
        Program.load(tmp_path / "bad")


@pytest.mark.parametrize("raw", [b"[" * 100_000, b'{"a": NaN}', b'{"a": 1e', b"[]", b"1" * 100_000])
def test_hostile_json_is_refused(raw):
    with pytest.raises(ProgramError):
        p.parse_json(raw)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=200)
@given(st.data())
def test_any_one_field_replaced_by_anything_is_refused_or_well_formed(data):
    header, blobs = sample().to_parts()
    header = json.loads(json.dumps(header))
    part = data.draw(st.sampled_from(["buffers", "ops"]))
    entry = header[part][data.draw(st.integers(0, len(header[part]) - 1))]
    entry[data.draw(st.sampled_from(sorted(entry)))] = data.draw(values)
    try:
        made = Program.from_parts(header, blobs)
    except ProgramError:
        return
    assert Program.from_parts(*made.to_parts()) == made


def launch_op(args: bytes, **more) -> dict:
    op = {"op": "launch", "module": 5, "kernel": "k", "grid": [1, 1, 1], "block": [8, 1, 1], "shared": 0, "args": args}
    return op | {"stream": 0, "cooperative": False, "cluster": None, "device": 0} | more


def alloc(address: int, nbytes: int, **more) -> dict:
    op = {"op": "alloc", "address": address, "nbytes": nbytes, "kind": "device", "stream": None, "device": 0}
    return op | more


def recorder(*where) -> Recorder:
    r = Recorder(lambda address, nbytes: bytes(nbytes), *where)
    for op in (alloc(0x7000, 64), alloc(0x8000, 64), {"op": "module", "module": 5, "ptx": PTX + b"\0"}):
        r(op)
    x = Declared("x", 0x7000, 64, "input", "<f4", (16,))
    r.begin([x, Declared("y", 0x8000, 64, "output", "<f4", (16,))])
    return r


def words(*numbers: int) -> bytes:
    return np.array(numbers, "<u8").tobytes()


def test_addresses_become_buffer_and_offset_even_inside_and_one_past_the_end():
    r = recorder()
    r(launch_op(words(16, 0x7008, 0x8040, 0x7FFF_0000_0000)))
    (launch,) = r.end().launches()
    assert launch.relocations == (Relocation(8, 0, 8), Relocation(16, 1, 64))
    assert launch.args == words(16, 0, 0, 0x7FFF_0000_0000)


def test_memory_made_before_the_timed_part_keeps_its_contents_and_comes_along_if_it_is_used():
    r = Recorder(lambda address, nbytes: b"table"[:nbytes])
    for op in (alloc(0x9000, 5), alloc(0xA000, 5), {"op": "module", "module": 5, "ptx": PTX}):
        r(op)
    r.begin([])
    r(launch_op(words(0x9001)))
    program = r.end()
    assert program.buffers == (Buffer(5, "device", "temp", initial=0),)
    assert program.blobs == (b"table",)
    assert program.launches()[0].relocations == (Relocation(0, 0, 1),)


@pytest.mark.parametrize(
    "op",
    [
        {"op": "host_func", "stream": 0},
        {"op": "discard", "address": 0x7000, "nbytes": 64, "stream": 0},
        {"op": "pool_access", "pool": 1, "peer": 1, "access": 3},
        {"op": "graph", "exec": 1, "nodes": [{"op": "host_func", "after": [], "enabled": True}]},
        launch_op(b"", cluster=[2, 1, 1]),
    ],
)
def test_what_cannot_be_replayed_is_said(op):
    r = recorder()
    r({"device": 0} | op)
    with pytest.raises(ProgramError, match="cannot be replayed"):
        r.end()


@pytest.mark.parametrize(
    "op", [launch_op(b"", device=1), {"op": "peer", "peer": 1, "enabled": True}, alloc(0xB000, 8, device=1)]
)
def test_a_device_that_the_exercise_does_not_have_is_said_with_the_line(op):
    r = recorder(lambda: ("cell 2", 7))
    r({"device": 0} | op)
    with pytest.raises(
        ProgramError, match=r"^cell 2, line 7: GPU 1 is used, and the machine of this exercise has one GPU$"
    ):
        r.end()


def graph_op(*nodes: dict) -> dict:
    return {"op": "graph", "exec": 1, "device": 0, "nodes": [{"enabled": True} | n for n in nodes]}


def kernel_node(*after: int, **more) -> dict:
    return launch_op(b"") | {"after": list(after)} | more


def test_a_graph_within_a_graph_becomes_nodes_of_the_outer_one():
    inner = [{"enabled": True} | n for n in (kernel_node(), kernel_node(), kernel_node(0), kernel_node(0, 1))]
    child = {"op": "child", "after": [0, 1], "nodes": inner}
    empty = {"op": "child", "after": [2], "nodes": []}
    r = recorder()
    r(graph_op(kernel_node(), kernel_node(0), child, empty, kernel_node(3), kernel_node()))
    (graph,) = r.end().ops
    assert [n.after for n in graph.nodes] == [(), (0,), (0, 1), (0, 1), (2,), (2, 3), (4, 5), ()]


def test_nodes_that_are_switched_off_stay_so_and_memory_of_a_graph_is_there_from_the_start():
    memory = {"op": "alloc", "address": 0xC000, "nbytes": 32, "kind": "device", "after": []}
    r = recorder()
    use = launch_op(words(0xC008)) | {"after": [0]}
    r(graph_op(memory, use, kernel_node(1, enabled=False), {"op": "free", "address": 0xC000, "after": [2]}))
    program = r.end()
    (graph,) = program.ops
    assert [(n.work is None, n.enabled) for n in graph.nodes] == [
        (True, True),
        (False, True),
        (False, False),
        (True, True),
    ]
    assert graph.nodes[1].work.relocations == (Relocation(0, 2, 8),)
    assert program.buffers[2] == Buffer(32, "device", "temp")


def test_a_graph_made_before_the_call_is_refused():
    r = recorder()
    r({"op": "graph_launch", "exec": 1, "stream": 0, "device": 0})
    with pytest.raises(ProgramError, match="capture it inside"):
        r.end()
