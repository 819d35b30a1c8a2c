"""Turn a hostile header and blobs into a `Program`, or say what is wrong with them."""

from dataclasses import fields
from math import prod

import numpy as np

from grader import program as p
from grader.program import Buffer, Copy, Fill, Launch, Place, Program, ProgramError, Record, Relocation, Sync, Wait

STREAM_KINDS = ("legacy", "per-thread", "blocking", "non-blocking")


def build(header: object, blobs: list[bytes]) -> Program:
    """The program that the parts describe. ProgramError when any part is not as `grader.program` documents it."""
    top = _Fields(header, "program", ("version", "modules", "buffers", "streams", "ops"))
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
    buffers = tuple(_buffer(b, i, contents) for i, b in enumerate(top.sequence("buffers", 0, p.MAX_BUFFERS)))
    if sum(b.nbytes for b in buffers) > p.MAX_BUFFER_BYTES:
        raise ProgramError(f"buffers of more than {p.MAX_BUFFER_BYTES >> 30} GB")
    names = [b.name for b in buffers if b.name]
    if len(names) != len(set(names)):
        raise ProgramError("two buffers have the same name")
    where = _Where(buffers, count, contents, len(streams))
    ops = tuple(_op(o, i, where) for i, o in enumerate(top.sequence("ops", 0, p.MAX_OPS)))
    return Program(buffers, tuple(modules), ops, tuple(contents), streams)


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


class _Where:
    """What operations may refer to."""

    def __init__(self, buffers: tuple[Buffer, ...], modules: int, contents: list[bytes], streams: int):
        self.buffers, self.modules, self.contents, self.streams = buffers, modules, contents, streams

    def buffer(self, v: object, what: str) -> int:
        return _integer(v, 0, len(self.buffers) - 1, f"{what}: buffer")

    def place(self, v: object, nbytes: int, what: str) -> Place:
        if type(v) not in (list, tuple) or len(v) != 2:
            raise ProgramError(f"{what}: a place is [buffer, offset]")
        buffer = self.buffer(v[0], what)
        return Place(buffer, _integer(v[1], 0, self.buffers[buffer].nbytes - nbytes, f"{what}: offset"))

    def stream(self, f: _Fields) -> int:
        return f.integer("stream", 0, self.streams - 1)


def _integer(v: object, low: int, high: int, what: str) -> int:
    if type(v) is not int or not low <= v <= high:
        raise ProgramError(f"{what} is no whole number from {low} to {high}")
    return v


def _check_ptx(ptx: bytes) -> None:
    if len(ptx) > p.MAX_MODULE_BYTES:
        raise ProgramError(f"a module of {len(ptx)} bytes of PTX; at most {p.MAX_MODULE_BYTES}")
    if not ptx.isascii() or b".version" not in ptx or b"\0" in ptx.rstrip(b"\0"):
        raise ProgramError("a module is not PTX text")


def _buffer(value: object, i: int, contents: list[bytes]) -> Buffer:
    f = _Fields(value, f"buffer {i}", ("nbytes", "kind", "role", "name", "dtype", "shape", "initial"))
    nbytes, role = f.integer("nbytes", 1, p.MAX_BUFFER_BYTES), f.text("role", p.ROLES)
    name, dtype = f.text("name", pattern=p._ARRAY_NAME), f.text("dtype", p.DTYPES)
    shape = tuple(_integer(v, 1, p.MAX_BUFFER_BYTES, f"buffer {i}: shape") for v in f.sequence("shape", 0, 8))
    if (role == "temp") != (name == "") or (role == "temp") != (dtype == ""):
        raise ProgramError(f"buffer {i}: inputs and outputs have a name and a dtype, temporary memory has neither")
    if dtype and prod(shape) * np.dtype(dtype).itemsize != nbytes:
        raise ProgramError(f"buffer {i}: {nbytes} bytes do not hold {shape} elements of {dtype}")
    initial = None if value["initial"] is None else f.integer("initial", 0, len(contents) - 1)
    if initial is not None and (role != "temp" or len(contents[initial]) != nbytes):
        raise ProgramError(f"buffer {i}: contents are given for temporary memory only, whole")
    return Buffer(nbytes, f.text("kind", p.KINDS), role, name, dtype, shape, initial)


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
        kernel=f.text("kernel", pattern=p._NAME),
        grid=f.integers("grid", 3, 1, 2**31 - 1),
        block=f.integers("block", 3, 1, 1024),
        shared=f.integer("shared", 0, 1 << 20),
        args=args,
        relocations=tuple(relocations),
        stream=where.stream(f),
        cooperative=f.flag("cooperative"),
    )


def _copy(f: _Fields, where: _Where) -> Copy:
    nbytes = f.integer("nbytes", 1, p.MAX_BUFFER_BYTES)
    source, blob = f.value["source"], f.value["blob"]
    if (source is None) == (blob is None):
        raise ProgramError(f"{f.what}: either a source or a blob")
    if blob is not None and len(where.contents[f.integer("blob", 0, len(where.contents) - 1)]) != nbytes:
        raise ProgramError(f"{f.what}: the blob has another size than the copy")
    return Copy(
        to=where.place(f.value["to"], nbytes, f.what),
        source=None if source is None else where.place(source, nbytes, f.what),
        nbytes=nbytes,
        blob=blob,
        stream=where.stream(f),
        blocking=f.flag("blocking"),
    )


def _fill(f: _Fields, where: _Where) -> Fill:
    width = f.integer("width", 1, 4)
    if width == 3:
        raise ProgramError(f"{f.what}: width is 1, 2 or 4")
    count = f.integer("count", 1, p.MAX_BUFFER_BYTES)
    to = where.place(f.value["to"], width * count, f.what)
    return Fill(to, width, f.integer("value", 0, 2 ** (8 * width) - 1), count, where.stream(f))


def _sync(f: _Fields, where: _Where) -> Sync:
    return Sync(f.text("what", ("stream", "event", "context")), f.integer("id", 0, 1 << 16))


_READ = {
    "launch": (_launch, Launch),
    "copy": (_copy, Copy),
    "fill": (_fill, Fill),
    "record": (lambda f, w: Record(f.integer("event", 0, 1 << 16), w.stream(f)), Record),
    "wait": (lambda f, w: Wait(w.stream(f), f.integer("event", 0, 1 << 16)), Wait),
    "sync": (_sync, Sync),
}


def _op(value: object, i: int, where: _Where) -> p.Op:
    kind = value.get("op") if type(value) is dict else None
    if type(kind) is not str or kind not in _READ:
        raise ProgramError(f"operation {i}: unknown kind")
    read, cls = _READ[kind]
    keys = ("op", *(f.name for f in fields(cls)))
    return read(_Fields(value, f"operation {i} ({kind})", keys), where)
