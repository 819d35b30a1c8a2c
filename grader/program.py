"""What a submission asked of CUDA, as plain data: PTX text and an ordered list of operations.

A `Program` comes out of a process that the student owns, so everything in it is hostile until `Program.from_parts` has
checked it: types, ranges, sizes, and that every reference points at something that exists. What passes can be replayed
with other inputs on any device; it cannot name an address, a file or a function of the host.

A program on the wire or on disk is one JSON header and a list of raw byte strings ("blobs"); see `save` for the file.
"""

import hashlib
import json
import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Any, ClassVar, get_args

VERSION = 3
MAGIC = b"CAMPPROG"
MAX_HEADER = 32 << 20
MAX_MODULES, MAX_MODULE_BYTES = 64, 4 << 20
MAX_BUFFERS, MAX_BUFFER_BYTES = 4096, 16 << 30
MAX_OPS = 200_000
MAX_NODES = 20_000
MAX_ARGS = 4096
MAX_DEVICES = 16
MAX_BLOB_BYTES = 256 << 20
LAUNCH_S = 6.0  # no launch of a program takes so much processor time on the virtual GPU; one that does never ends

# "scratch": the exercise gave it, and nobody looks at it afterwards. "temp": the submission's own.
ROLES = ("input", "output", "inout", "scratch", "temp")
KINDS = ("device", "managed", "host", "pageable")  # "host" is pinned
CLOCKS = ("device", "host")
LOCATIONS = ("device", "host", *(f"device:{n}" for n in range(1, MAX_DEVICES)))  # "device" is the first
ADVICE = tuple(p + a for a in ("read_mostly", "preferred_location", "accessed_by") for p in ("", "unset_"))
DTYPES = ("", "|b1", "|i1", "|u1", "<i2", "<u2", "<f2", "<i4", "<u4", "<f4", "<i8", "<u8", "<f8", "<c8", "<c16")


class ProgramError(ValueError):
    """A recording that is not a well-formed program; the text says which part and why."""


@dataclass(frozen=True)
class Buffer:
    """Memory that the program uses. All but temporary memory carries the name of the array that the exercise gave."""

    nbytes: int  # size; at least 1
    kind: str  # one of KINDS: where it lives
    role: str  # one of ROLES
    name: str = ""  # the exercise's name for it; empty for temporary memory
    dtype: str = ""  # NumPy's spelling ("<f4"); empty for temporary memory
    shape: tuple[int, ...] = ()  # elements in each dimension
    initial: int | None = None  # blob with the bytes it held before the timed part; None: not written
    device: int = 0  # whose memory it is; of managed and pinned memory, whose context was current


# --- operations ------------------------------------------------------------------------------------------------------
# A stream is an index into Program.streams; 0 is the legacy default stream of the first device. Events and instantiated
# graphs are numbers of the recording, which mean nothing but that the same number is the same thing. Work is done on the
# device of its stream.


@dataclass(frozen=True)
class Relocation:
    """The eight bytes at `offset` of a launch's arguments are the address of `buffer` plus `addend`."""

    offset: int  # bytes from the start of the parameter block
    buffer: int  # index into Program.buffers
    addend: int  # bytes into the buffer; the buffer's size is allowed (one past the end)


@dataclass(frozen=True)
class Place:
    """A position in a buffer."""

    buffer: int  # index into Program.buffers
    offset: int  # bytes


@dataclass(frozen=True)
class Launch:
    """A kernel is launched (cuLaunchKernel, or cuLaunchCooperativeKernel)."""

    op: ClassVar[str] = "launch"
    module: int  # index into Program.modules
    kernel: str  # entry name in that module
    grid: tuple[int, int, int]  # blocks
    block: tuple[int, int, int]  # threads
    shared: int  # dynamic shared memory, bytes
    args: bytes  # the parameter block, addresses zeroed
    relocations: tuple[Relocation, ...] = ()
    stream: int = 0  # small number; 0 is the legacy default stream
    cooperative: bool = False  # launched with grid-wide synchronisation


@dataclass(frozen=True)
class Copy:
    """`rows` rows of `nbytes` bytes. Both ends lie in one buffer each, pageable ones included."""

    op: ClassVar[str] = "copy"
    to: Place
    source: Place | None  # None: the bytes of `blob`
    nbytes: int  # of one row
    blob: int | None = None  # bytes that the host computed itself, rows joined
    stream: int = 0
    blocking: bool = False  # the call was the one without Async
    rows: int = 1
    to_pitch: int = 0  # bytes from row to row
    source_pitch: int = 0


@dataclass(frozen=True)
class Fill:
    """A memset (cuMemsetD8Async and its kin): `rows` rows of `count` values."""

    op: ClassVar[str] = "fill"
    to: Place
    width: int  # bytes of one value: 1, 2 or 4
    value: int
    count: int  # values in a row
    stream: int = 0
    rows: int = 1
    pitch: int = 0  # bytes from row to row


@dataclass(frozen=True)
class Alloc:
    """The buffer exists from here on, and not before: allocated in the timed part."""

    op: ClassVar[str] = "alloc"
    buffer: int
    stream: int | None = None  # None: at once; else in the order of a stream


@dataclass(frozen=True)
class Free:
    """The buffer is gone from here on."""

    op: ClassVar[str] = "free"
    buffer: int
    stream: int | None = None  # None: at once, after waiting for the device; else in the order of a stream


@dataclass(frozen=True)
class HostWrite:
    """The host's own code has written these bytes of memory that it shares with the device, or of a pageable array."""

    op: ClassVar[str] = "host_write"
    to: Place
    blob: int


@dataclass(frozen=True)
class HostCopy:
    """The host's own code has copied between two buffers that it can reach."""

    op: ClassVar[str] = "host_copy"
    to: Place
    source: Place
    nbytes: int


@dataclass(frozen=True)
class Register:
    """Pageable memory is page-locked (cuMemHostRegister), the whole of a buffer or a part."""

    op: ClassVar[str] = "register"
    place: Place
    nbytes: int


@dataclass(frozen=True)
class Unregister:
    """Page-locked memory is ordinary again (cuMemHostUnregister)."""

    op: ClassVar[str] = "unregister"
    place: Place  # where a registered part begins


@dataclass(frozen=True)
class Prefetch:
    """Managed memory is to be moved ahead of its use (cuMemPrefetchAsync)."""

    op: ClassVar[str] = "prefetch"
    place: Place
    nbytes: int
    location: str  # one of LOCATIONS
    stream: int = 0


@dataclass(frozen=True)
class Advise:
    """How managed memory will be used (cuMemAdvise)."""

    op: ClassVar[str] = "advise"
    place: Place
    nbytes: int
    advice: str  # one of ADVICE
    location: str  # one of LOCATIONS


@dataclass(frozen=True)
class Record:
    """An event is recorded in a stream."""

    op: ClassVar[str] = "record"
    event: int
    stream: int = 0


@dataclass(frozen=True)
class Wait:
    """A stream waits for an event; for one that was never recorded it does not."""

    op: ClassVar[str] = "wait"
    stream: int
    event: int


@dataclass(frozen=True)
class Sync:
    """The host waits, for a stream, an event or the whole device."""

    op: ClassVar[str] = "sync"
    what: str  # "stream", "event" or "context"
    id: int = 0  # stream, event or device number


@dataclass(frozen=True)
class Peer:
    """From here on kernels of `device` may, or may no longer, reach the memory of `peer`."""

    op: ClassVar[str] = "peer"
    device: int
    peer: int
    enabled: bool


@dataclass(frozen=True)
class Node:
    """A node of a graph."""

    work: Launch | Copy | Fill | None  # None: an empty node. Its stream means nothing
    after: tuple[int, ...] = ()  # indices of earlier nodes
    enabled: bool = True  # False: switched off, it only keeps the order


@dataclass(frozen=True)
class Graph:
    """A graph is instantiated, however it was made: by capture or node by node."""

    op: ClassVar[str] = "graph"
    exec: int
    nodes: tuple[Node, ...]
    device: int = 0  # on which it works


@dataclass(frozen=True)
class GraphUpdate:
    """An instantiated graph takes other parameters; its shape stays."""

    op: ClassVar[str] = "graph_update"
    exec: int
    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class GraphLaunch:
    """An instantiated graph is launched, as it is at that point."""

    op: ClassVar[str] = "graph_launch"
    exec: int
    stream: int = 0


Op = (
    Launch | Copy | Fill | Alloc | Free | HostWrite | HostCopy | Register | Unregister | Prefetch | Advise
    | Record | Wait | Sync | Peer | Graph | GraphUpdate | GraphLaunch
)  # fmt: skip
OPS: tuple[type, ...] = get_args(Op)


@dataclass(frozen=True)
class Program:
    """A checked recording. Build one with `Program.make` or `from_parts`; both check everything."""

    buffers: tuple[Buffer, ...]
    modules: tuple[bytes, ...]  # PTX text
    ops: tuple[Op, ...]  # the timed part, in submission order
    blobs: tuple[bytes, ...] = ()  # contents for Buffer.initial and Copy.blob
    streams: tuple[str, ...] = ("legacy",)  # kind of stream i: "legacy", "per-thread", "blocking", "non-blocking"
    priorities: tuple[int, ...] = ()  # of the streams, lower first; or nothing: all are equal
    places: tuple[tuple[str, int], ...] = ()  # file and line of the submission, one an operation; or nothing
    stream_devices: tuple[int, ...] = ()  # of the streams; or nothing: all are on the first
    devices: int = 1  # that it needs; the first is 0
    clock: str = "device"  # what is timed: "device" between two events; "host" from the first call to the last's end

    @classmethod
    def make(cls, buffers: Iterable[Buffer], modules: Iterable[bytes], ops: Iterable[Op], **rest: Any) -> "Program":
        """A checked program from its parts. ProgramError when they do not fit together."""
        program = cls(tuple(buffers), tuple(modules), tuple(ops), **rest)
        header, blobs = program.to_parts()
        return cls.from_parts(header, blobs)

    def named(self, *roles: str) -> dict[str, int]:
        """Array name -> buffer index, for the given roles."""
        return {b.name: i for i, b in enumerate(self.buffers) if b.role in roles}

    def device_of(self, op: Op) -> int:
        """The device whose context is current when an operation is asked for."""
        if isinstance(op, Graph | Peer):
            return op.device
        if isinstance(op, Sync):
            return op.id if op.what == "context" else self.device_of_stream(op.id if op.what == "stream" else 0)
        if isinstance(op, Alloc | Free) and op.stream is None:
            return self.buffers[op.buffer].device
        return self.device_of_stream(getattr(op, "stream", 0))

    def device_of_stream(self, stream: int) -> int:
        """The device that a stream is on."""
        return self.stream_devices[stream] if self.stream_devices else 0

    def launches(self) -> list[Launch]:
        """The launches, in submission order; those that are nodes of graphs are not among them."""
        return [op for op in self.ops if isinstance(op, Launch)]

    def graphs(self) -> dict[int, Graph]:
        """Instantiated graphs by their number, as they were when they were made."""
        return {op.exec: op for op in self.ops if isinstance(op, Graph)}

    def to_parts(self) -> tuple[dict, list[bytes]]:
        """(header fit for JSON, blobs): PTX modules first, then contents."""
        header = {
            "version": VERSION,
            "modules": len(self.modules),
            "buffers": [asdict(b) for b in self.buffers],
            "streams": list(self.streams),
            "priorities": list(self.priorities),
            "stream_devices": list(self.stream_devices),
            "devices": self.devices,
            "clock": self.clock,
            "places": [list(place) for place in self.places],
            "ops": [_plain(op) for op in self.ops],
        }
        return header, [*self.modules, *self.blobs]

    @classmethod
    def from_parts(cls, header: object, blobs: Iterable[bytes]) -> "Program":
        """Check hostile parts and build the program. ProgramError names the first part that does not hold."""
        from grader.program_check import build

        return build(header, list(blobs))

    def digest(self) -> str:
        """SHA-256 over everything, as hex: equal programs have equal digests."""
        header, blobs = self.to_parts()
        h = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
        for blob in blobs:
            h.update(struct.pack("<Q", len(blob)) + blob)
        return h.hexdigest()

    def save(self, path: str | os.PathLike) -> None:
        """Write MAGIC, the header's length, the JSON header (with the blobs' sizes), the blobs."""
        header, blobs = self.to_parts()
        text = json.dumps(header | {"sizes": [len(b) for b in blobs]}).encode()
        with open(path, "wb") as f:
            f.write(MAGIC + struct.pack("<I", len(text)) + text)
            f.writelines(blobs)

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Program":
        """Read what `save` wrote. ProgramError on anything else."""
        with open(path, "rb") as f:
            start = f.read(12)
            if start[:8] != MAGIC or len(start) != 12:
                raise ProgramError("not a program file")
            (length,) = struct.unpack("<I", start[8:])
            if length > MAX_HEADER:
                raise ProgramError(f"header of {length} bytes; at most {MAX_HEADER}")
            header = parse_json(f.read(length))
            body = f.read(MAX_BLOB_BYTES + 1)
        sizes = header.pop("sizes", None)
        if not isinstance(sizes, list) or not all(type(s) is int and s >= 0 for s in sizes) or sum(sizes) != len(body):
            raise ProgramError("the sizes in the header do not add up to the file")
        ends = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
        return cls.from_parts(header, [body[a:b] for a, b in pairwise(ends)])


def parse_json(raw: bytes) -> dict:
    """A JSON object from hostile bytes; ProgramError for anything else, NaN and runaway nesting included."""

    def refuse(word: str) -> None:
        raise ProgramError(f"{word} in the header")

    try:
        value = json.loads(raw, parse_constant=refuse)
    except (ValueError, RecursionError) as e:
        raise ProgramError(f"the header is not JSON: {type(e).__name__}") from None
    if not isinstance(value, dict):
        raise ProgramError("the header is not a JSON object")
    return value


def work_of(op: object) -> Iterator[Launch | Copy | Fill]:
    """Kernels, copies and fills that an operation puts on the device or into a graph: itself, or its nodes."""
    if isinstance(op, Graph | GraphUpdate):
        yield from (n.work for n in op.nodes if n.work is not None)
    elif isinstance(op, Launch | Copy | Fill):
        yield op


def _plain(op: Op) -> dict:
    return {"op": op.op} | {f.name: _value(getattr(op, f.name)) for f in fields(op)}


def _value(v: Any) -> Any:
    match v:
        case bytes():
            return v.hex()
        case Relocation():
            return [v.offset, v.buffer, v.addend]
        case Place():
            return [v.buffer, v.offset]
        case Node():
            return [v.work and _plain(v.work), list(v.after), v.enabled]
        case tuple():
            return [_value(x) for x in v]
        case _:
            return v
