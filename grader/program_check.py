"""Turn a hostile header and blobs into a `Program`, or say what is wrong with them."""

import re
from dataclasses import fields
from math import prod

import numpy as np

from grader import program as p
from grader.program import Buffer, Copy, Fill, Launch, Node, Place, Program, ProgramError, Relocation

_KERNEL_NAME = re.compile(r"[A-Za-z_$%][\w$%]{0,1023}\Z")
_FILE_NAME = re.compile(r"[\w .-]{0,100}\Z")
_ARRAY_NAME = re.compile(r"\w{0,64}\Z")
STREAM_KINDS = ("legacy", "per-thread", "blocking", "non-blocking")


def build(header: object, blobs: list[bytes]) -> Program:
    """The program that the parts describe. ProgramError when any part is not as `grader.program` documents it."""
    top = _Fields(
        header,
        "program",
        (
            *("version", "modules", "buffers", "streams", "priorities", "stream_devices", "devices"),
            *("clock", "places", "ops"),
        ),
    )
    if top.integer("version", 0, 1 << 16) != p.VERSION:
        raise ProgramError(f"version {header['version']} of the program format; this grader reads {p.VERSION}")
    if not all(type(b) is bytes for b in blobs) or sum(map(len, blobs)) > p.MAX_BLOB_BYTES:
        raise ProgramError(f"contents of more than {p.MAX_BLOB_BYTES >> 20} MB")
    count = top.integer("modules", 0, min(p.MAX_MODULES, len(blobs)))
    modules, contents = blobs[:count], blobs[count:]
    for ptx in modules:
        _check_ptx(ptx)
    streams = tuple(top.sequence("streams", 1, 1024))
    if streams[0] != "legacy" or any(s not in STREAM_KINDS for s in streams):
        raise ProgramError("streams: unknown kind")
    devices = top.integer("devices", 1, p.MAX_DEVICES)
    on = tuple(_integer(v, 0, devices - 1, "stream_devices") for v in top.sequence("stream_devices", 0, len(streams)))
    if on and (len(on) != len(streams) or on[0]):
        raise ProgramError("stream_devices: one a stream, the first 0, or none")
    buffers = tuple(_buffer(b, i, contents, devices) for i, b in enumerate(top.sequence("buffers", 0, p.MAX_BUFFERS)))
    if sum(b.nbytes for b in buffers) > p.MAX_BUFFER_BYTES:
        raise ProgramError(f"buffers of more than {p.MAX_BUFFER_BYTES >> 30} GB")
    names = [b.name for b in buffers if b.name]
    if len(names) != len(set(names)):
        raise ProgramError("two buffers have the same name")
    where = _Where(buffers, count, contents, len(streams), devices)
    ops = tuple(_op(o, f"operation {i}", where) for i, o in enumerate(top.sequence("ops", 0, p.MAX_OPS)))
    check_lifetimes(buffers, ops)
    clock, places = top.text("clock", p.CLOCKS), tuple(_a_line(v) for v in top.sequence("places", 0, len(ops)))
    if places and len(places) != len(ops):
        raise ProgramError("places: one an operation, or none")
    priorities = tuple(_integer(v, -100, 100, "priorities") for v in top.sequence("priorities", 0, len(streams)))
    if priorities and len(priorities) != len(streams):
        raise ProgramError("priorities: one a stream, or none")
    return Program(buffers, tuple(modules), ops, tuple(contents), streams, priorities, places, on, devices, clock)


class _Fields:
    """Typed access to a JSON object that someone hostile wrote; exactly the expected keys, nothing else."""

    def __init__(self, value: object, what: str, keys: tuple[str, ...]):
        if type(value) is not dict or set(value) != set(keys):
            raise ProgramError(f"{what}: expected an object with {', '.join(keys)}")
        self.value, self.what = value, what

    def integer(self, key: str, low: int, high: int) -> int:
        return _integer(self.value[key], low, high, f"{self.what}: {key}")

    def sequence(self, key: str, least: int, most: int) -> list:
        v = self.value[key]
        if type(v) not in (list, tuple) or not least <= len(v) <= most:
            raise ProgramError(f"{self.what}: {key} is no list of {least} to {most} entries")
        return list(v)

    def integers(self, key: str, length: int, low: int, high: int) -> tuple[int, ...]:
        return tuple(_integer(v, low, high, f"{self.what}: {key}") for v in self.sequence(key, length, length))

    def text(self, key: str, allowed: tuple[str, ...] | None = None, pattern=None) -> str:
        v = self.value[key]
        if type(v) is not str or (allowed and v not in allowed) or (pattern and not pattern.match(v)):
            raise ProgramError(f"{self.what}: {key} is not one that this format knows")
        return v

    def flag(self, key: str) -> bool:
        if type(self.value[key]) is not bool:
            raise ProgramError(f"{self.what}: {key} is neither true nor false")
        return self.value[key]


def _a_line(v: object) -> tuple[str, int]:
    if type(v) not in (list, tuple) or len(v) != 2 or type(v[0]) is not str or not _FILE_NAME.match(v[0]):
        raise ProgramError("places: a place is [file, line]")
    return v[0], _integer(v[1], 0, 1 << 24, "places: line")


class _Where:
    """What operations may refer to."""

    def __init__(self, buffers: tuple[Buffer, ...], modules: int, contents: list[bytes], streams: int, devices: int):
        self.buffers, self.modules, self.contents, self.streams = buffers, modules, contents, streams
        self.devices = devices

    def device(self, f: _Fields, key: str = "device") -> int:
        return f.integer(key, 0, self.devices - 1)

    def location(self, f: _Fields) -> str:
        said = f.text("location", p.LOCATIONS)
        if int(said.partition(":")[2] or 0) >= self.devices:
            raise ProgramError(f"{f.what}: location is a device that the program does not have")
        return said

    def buffer(self, v: object, what: str) -> int:
        return _integer(v, 0, len(self.buffers) - 1, f"{what}: buffer")

    def place(self, v: object, nbytes: int, what: str) -> Place:
        if type(v) not in (list, tuple) or len(v) != 2:
            raise ProgramError(f"{what}: a place is [buffer, offset]")
        buffer = self.buffer(v[0], what)
        return Place(buffer, _integer(v[1], 0, self.buffers[buffer].nbytes - nbytes, f"{what}: offset"))

    def stream(self, f: _Fields) -> int:
        return f.integer("stream", 0, self.streams - 1)

    def stream_or_none(self, f: _Fields) -> int | None:
        return None if f.value["stream"] is None else self.stream(f)

    def blob(self, f: _Fields) -> int:
        return f.integer("blob", 0, len(self.contents) - 1)


def _integer(v: object, low: int, high: int, what: str) -> int:
    if type(v) is not int or not low <= v <= high:
        raise ProgramError(f"{what} is no whole number from {low} to {high}")
    return v


def _check_ptx(ptx: bytes) -> None:
    if len(ptx) > p.MAX_MODULE_BYTES:
        raise ProgramError(f"a module of {len(ptx)} bytes of PTX; at most {p.MAX_MODULE_BYTES}")
    if not ptx.isascii() or b".version" not in ptx or b"\0" in ptx.rstrip(b"\0"):
        raise ProgramError("a module is not PTX text")


def _buffer(value: object, i: int, contents: list[bytes], devices: int) -> Buffer:
    f = _Fields(value, f"buffer {i}", ("nbytes", "kind", "role", "name", "dtype", "shape", "initial", "device"))
    nbytes, role = f.integer("nbytes", 1, p.MAX_BUFFER_BYTES), f.text("role", p.ROLES)
    name, dtype = f.text("name", pattern=_ARRAY_NAME), f.text("dtype", p.DTYPES)
    shape = tuple(_integer(v, 1, p.MAX_BUFFER_BYTES, f"buffer {i}: shape") for v in f.sequence("shape", 0, 8))
    if (role == "temp") != (name == "") or (role == "temp") != (dtype == ""):
        raise ProgramError(f"buffer {i}: arrays of the exercise have a name and a dtype, temporary memory has neither")
    if dtype and prod(shape) * np.dtype(dtype).itemsize != nbytes:
        raise ProgramError(f"buffer {i}: {nbytes} bytes do not hold {shape} elements of {dtype}")
    initial = None if value["initial"] is None else f.integer("initial", 0, len(contents) - 1)
    if initial is not None and (role != "temp" or len(contents[initial]) != nbytes):
        raise ProgramError(f"buffer {i}: contents are given for temporary memory only, whole")
    device = f.integer("device", 0, devices - 1)
    return Buffer(nbytes, f.text("kind", p.KINDS), role, name, dtype, shape, initial, device)


def _launch(f: _Fields, where: _Where) -> Launch:
    try:
        args = bytes.fromhex(f.text("args"))
    except ValueError:
        raise ProgramError(f"{f.what}: args is not hexadecimal") from None
    if len(args) > p.MAX_ARGS:
        raise ProgramError(f"{f.what}: {len(args)} bytes of arguments; at most {p.MAX_ARGS}")
    relocations = []
    for r in f.sequence("relocations", 0, p.MAX_ARGS // 8):
        if type(r) not in (list, tuple) or len(r) != 3:
            raise ProgramError(f"{f.what}: a relocation is [offset, buffer, addend]")
        offset = _integer(r[0], 0, len(args) - 8, f"{f.what}: relocation offset")
        buffer = where.buffer(r[1], f.what)
        addend = _integer(r[2], 0, where.buffers[buffer].nbytes, f"{f.what}: relocation addend")
        relocations.append(Relocation(offset, buffer, addend))
    if len({r.offset for r in relocations}) != len(relocations):
        raise ProgramError(f"{f.what}: two relocations at one offset")
    return Launch(
        module=f.integer("module", 0, where.modules - 1),
        kernel=f.text("kernel", pattern=_KERNEL_NAME),
        grid=f.integers("grid", 3, 1, 2**31 - 1),
        block=f.integers("block", 3, 1, 1024),
        shared=f.integer("shared", 0, 1 << 20),
        args=args,
        relocations=tuple(relocations),
        stream=where.stream(f),
        cooperative=f.flag("cooperative"),
    )


def _copy(f: _Fields, where: _Where) -> Copy:
    nbytes, rows = f.integer("nbytes", 1, p.MAX_BUFFER_BYTES), f.integer("rows", 1, 1 << 24)
    to_pitch, source_pitch = _pitch(f, "to_pitch", nbytes, rows), _pitch(f, "source_pitch", nbytes, rows)
    source, blob = f.value["source"], f.value["blob"]
    if (source is None) == (blob is None):
        raise ProgramError(f"{f.what}: either a source or a blob")
    if blob is not None and (len(where.contents[where.blob(f)]) != nbytes * rows or source_pitch not in (0, nbytes)):
        raise ProgramError(f"{f.what}: the blob has another size than the copy")
    extent = source_pitch * (rows - 1) + nbytes
    return Copy(
        to=where.place(f.value["to"], to_pitch * (rows - 1) + nbytes, f.what),
        source=None if source is None else where.place(source, extent, f.what),
        nbytes=nbytes,
        blob=blob,
        stream=where.stream(f),
        blocking=f.flag("blocking"),
        rows=rows,
        to_pitch=to_pitch,
        source_pitch=source_pitch,
    )


def _pitch(f: _Fields, key: str, nbytes: int, rows: int) -> int:
    if rows == 1:
        return f.integer(key, 0, 0)
    return f.integer(key, nbytes, p.MAX_BUFFER_BYTES)


def _fill(f: _Fields, where: _Where) -> Fill:
    width = f.integer("width", 1, 4)
    if width == 3:
        raise ProgramError(f"{f.what}: width is 1, 2 or 4")
    count, rows = f.integer("count", 1, p.MAX_BUFFER_BYTES), f.integer("rows", 1, 1 << 24)
    pitch = _pitch(f, "pitch", width * count, rows)
    to = where.place(f.value["to"], pitch * (rows - 1) + width * count, f.what)
    return Fill(to, width, f.integer("value", 0, 2 ** (8 * width) - 1), count, where.stream(f), rows, pitch)


def _alloc(f: _Fields, where: _Where) -> p.Alloc:
    buffer = where.buffer(f.value["buffer"], f.what)
    b = where.buffers[buffer]
    if b.role != "temp" or b.initial is not None or b.kind == "pageable":
        raise ProgramError(f"{f.what}: only new temporary memory can be allocated")
    return p.Alloc(buffer, where.stream_or_none(f))


def _host_write(f: _Fields, where: _Where) -> p.HostWrite:
    blob = where.blob(f)
    to = where.place(f.value["to"], len(where.contents[blob]), f.what)
    return p.HostWrite(_reached_by_host(to, f, where), blob)


def _host_copy(f: _Fields, where: _Where) -> p.HostCopy:
    nbytes = f.integer("nbytes", 1, p.MAX_BUFFER_BYTES)
    to, source = (where.place(f.value[k], nbytes, f.what) for k in ("to", "source"))
    return p.HostCopy(_reached_by_host(to, f, where), _reached_by_host(source, f, where), nbytes)


def _reached_by_host(place: Place, f: _Fields, where: _Where) -> Place:
    if where.buffers[place.buffer].kind == "device":
        raise ProgramError(f"{f.what}: the host cannot reach device memory")
    return place


def _range(f: _Fields, where: _Where, kind: str) -> tuple[Place, int]:
    nbytes = f.integer("nbytes", 1, p.MAX_BUFFER_BYTES)
    place = where.place(f.value["place"], nbytes, f.what)
    if where.buffers[place.buffer].kind != kind:
        raise ProgramError(f"{f.what}: not {kind} memory")
    return place, nbytes


def _prefetch(f: _Fields, where: _Where) -> p.Prefetch:
    return p.Prefetch(*_range(f, where, "managed"), where.location(f), where.stream(f))


def _advise(f: _Fields, where: _Where) -> p.Advise:
    return p.Advise(*_range(f, where, "managed"), f.text("advice", p.ADVICE), where.location(f))


def _sync(f: _Fields, where: _Where) -> p.Sync:
    what = f.text("what", ("stream", "event", "context"))
    most = {"stream": where.streams - 1, "context": where.devices - 1}.get(what, _MAX_NUMBER)
    return p.Sync(what, f.integer("id", 0, most))


def _peer(f: _Fields, where: _Where) -> p.Peer:
    device, peer = where.device(f), where.device(f, "peer")
    if device == peer:
        raise ProgramError(f"{f.what}: a device is no peer of its own")
    return p.Peer(device, peer, f.flag("enabled"))


def _nodes(f: _Fields, where: _Where) -> tuple[Node, ...]:
    nodes = []
    for value in f.sequence("nodes", 0, p.MAX_NODES):
        if type(value) not in (list, tuple) or len(value) != 3 or type(value[1]) not in (list, tuple):
            raise ProgramError(f"{f.what}: a node is [work, after, enabled]")
        if type(value[2]) is not bool or (value[0] is None and not value[2]):
            raise ProgramError(f"{f.what}: a node of work is enabled or not, an empty one always")
        work = (
            None
            if value[0] is None
            else _op(value[0], f"{f.what}, node {len(nodes)}", where, ("launch", "copy", "fill"))
        )
        if getattr(work, "blob", None) is not None:
            raise ProgramError(f"{f.what}: a graph copies from memory of the program's")
        after = tuple(_integer(k, 0, len(nodes) - 1, f"{f.what}: after") for k in value[1])
        nodes.append(Node(work, after, value[2]))
    return tuple(nodes)


def _graph(f: _Fields, where: _Where) -> p.Graph:
    return p.Graph(f.integer("exec", 0, _MAX_NUMBER), _nodes(f, where), where.device(f))


def _graph_update(f: _Fields, where: _Where) -> p.GraphUpdate:
    return p.GraphUpdate(f.integer("exec", 0, _MAX_NUMBER), _nodes(f, where))


_MAX_NUMBER = 1 << 31  # of events and graphs
_READ = {
    "launch": _launch,
    "copy": _copy,
    "fill": _fill,
    "alloc": _alloc,
    "free": lambda f, w: p.Free(w.buffer(f.value["buffer"], f.what), w.stream_or_none(f)),
    "host_write": _host_write,
    "host_copy": _host_copy,
    "register": lambda f, w: p.Register(*_range(f, w, "pageable")),
    "unregister": lambda f, w: p.Unregister(w.place(f.value["place"], 1, f.what)),
    "prefetch": _prefetch,
    "advise": _advise,
    "record": lambda f, w: p.Record(f.integer("event", 0, _MAX_NUMBER), w.stream(f)),
    "wait": lambda f, w: p.Wait(w.stream(f), f.integer("event", 0, _MAX_NUMBER)),
    "sync": _sync,
    "peer": _peer,
    "graph": _graph,
    "graph_update": _graph_update,
    "graph_launch": lambda f, w: p.GraphLaunch(f.integer("exec", 0, _MAX_NUMBER), w.stream(f)),
}
_KEYS = {cls.op: ("op", *(f.name for f in fields(cls))) for cls in p.OPS}


def _op(value: object, what: str, where: _Where, allowed=tuple(_READ)) -> p.Op:
    kind = value.get("op") if type(value) is dict else None
    if type(kind) is not str or kind not in allowed:
        raise ProgramError(f"{what}: unknown kind")
    return _READ[kind](_Fields(value, f"{what} ({kind})", _KEYS[kind]), where)


def check_lifetimes(buffers: tuple[Buffer, ...], ops: tuple[p.Op, ...]) -> None:
    """Every operation uses memory that exists when it is submitted, and graphs that were made. ProgramError if not."""
    later = [op.buffer for op in ops if isinstance(op, p.Alloc)]
    live = set(range(len(buffers))) - set(later)
    freed: set[int] = set()
    uses: dict[int, set[int]] = {}  # graph -> buffers
    sound: set[int] = set()  # graphs all of whose buffers are there: looked at once, however often they are launched
    registered: set[Place] = set()
    for i, op in enumerate(ops):
        what = f"operation {i} ({op.op})"
        if isinstance(op, p.Alloc):
            if op.buffer in live | freed:
                raise ProgramError(f"{what}: buffer {op.buffer} is allocated twice")
            live.add(op.buffer)
        elif isinstance(op, p.Free):
            if op.buffer not in live or buffers[op.buffer].role != "temp" or buffers[op.buffer].kind == "pageable":
                raise ProgramError(f"{what}: buffer {op.buffer} is not there to be freed")
            live.remove(op.buffer)
            freed.add(op.buffer)
            sound.clear()
        elif isinstance(op, p.Register):
            registered.add(op.place)
        elif isinstance(op, p.Unregister):
            if op.place not in registered:
                raise ProgramError(f"{what}: nothing was registered there")
            registered.remove(op.place)
        if isinstance(op, p.Graph | p.GraphUpdate):
            if isinstance(op, p.Graph) == (op.exec in uses):
                raise ProgramError(f"{what}: graph {op.exec} is made twice, or was never made")
            uses[op.exec] = _touched(op)
            sound.discard(op.exec)
        elif isinstance(op, p.GraphLaunch):
            if op.exec not in uses:
                raise ProgramError(f"{what}: graph {op.exec} was never made")
            if op.exec in sound:
                continue
            sound.add(op.exec)
        needed = uses[op.exec] if isinstance(op, p.GraphLaunch) else _touched(op)
        if not needed <= live and not isinstance(op, p.Free):
            raise ProgramError(f"{what}: buffer {min(needed - live)} is not allocated at this point")


def _touched(op: p.Op) -> set[int]:
    """Buffers that an operation names."""
    found = {getattr(op, k).buffer for k in ("to", "source", "place") if getattr(op, k, None) is not None}
    for work in p.work_of(op):
        found |= {work.to.buffer} if hasattr(work, "to") else {r.buffer for r in work.relocations}
        if getattr(work, "source", None) is not None:
            found.add(work.source.buffer)
    return found
