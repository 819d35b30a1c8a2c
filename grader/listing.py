"""A `Program` as text: its buffers, its streams, its operations in order."""

from collections.abc import Iterator
from itertools import groupby

from grader import program as p
from grader.evidence import place
from grader.program import Buffer, Copy, Fill, Launch, Place, Program
from grader.rules.kernels import short_name

_VERBS = {"alloc": "allocate", "free": "free"}
_CLOCKS = {"device": "timed between two events", "host": "timed by the host's clock"}


def lines(program: Program) -> Iterator[str]:
    """The listing, line by line. Equal operations that follow each other stand there once."""
    yield f"{len(program.ops)} operations, {len(program.modules)} modules of PTX, {_CLOCKS[program.clock]}"
    yield "buffers"
    for i, b in enumerate(program.buffers):
        about = f"{b.dtype} {b.shape}" if b.name else ("with contents" if b.initial is not None else "")
        about = f"{about}{_on(program, b.device)}".lstrip(", ")
        yield f"  {name_of(program, i):12} {b.kind:9} {b.role:7} {size(b.nbytes):>10}  {about}".rstrip()
    yield "streams"
    for i, kind in enumerate(program.streams):
        yield f"  {i:<12} {kind}{_on(program, program.device_of_stream(i))}"
    yield "operations"
    places = program.places or (("", 0),) * len(program.ops)
    told = [(place(*line), describe(program, op)) for line, op in zip(places, program.ops, strict=True)]
    at = 0
    for (where, text), group in groupby(told):
        times = len(list(group))
        first, *rest = text.split("\n")
        yield f"  {at:5}  {where:16}  {first}{f'  ({times} times)' if times > 1 else ''}"
        yield from (f"{'':27}{line}" for line in rest)
        at += times


def describe(program: Program, op: p.Op) -> str:
    """One operation in words; the nodes of a graph on lines of their own."""
    stream = getattr(op, "stream", 0)
    where = f"stream {stream}" if stream is not None else "at once"
    match op:
        case Launch() | Copy() | Fill():
            waits = ", blocking" if getattr(op, "blocking", False) else ""
            return f"{_work(program, op)}, {where}{waits}"
        case p.Alloc() | p.Free():
            return f"{_VERBS[op.op]} {name_of(program, op.buffer)}, {where}"
        case p.HostWrite():
            return f"host writes {size(len(program.blobs[op.blob]))} to {place_of(program, op.to)}"
        case p.HostCopy():
            return f"host copies {size(op.nbytes)}: {_from_to(program, op)}"
        case p.Register():
            return f"register {size(op.nbytes)} at {place_of(program, op.place)}"
        case p.Unregister():
            return f"unregister {place_of(program, op.place)}"
        case p.Prefetch():
            return f"prefetch {size(op.nbytes)} at {place_of(program, op.place)} to the {op.location}, {where}"
        case p.Advise():
            return f"advise {op.advice.replace('_', ' ')} ({op.location}) for {place_of(program, op.place)}"
        case p.Record():
            return f"record event {op.event}, {where}"
        case p.Wait():
            return f"wait for event {op.event}, {where}"
        case p.Sync():
            device = "the device" if program.devices == 1 else f"device {op.id}"
            return f"host waits for {device if op.what == 'context' else f'{op.what} {op.id}'}"
        case p.Peer():
            return f"device {op.device} may {'' if op.enabled else 'no longer '}reach the memory of device {op.peer}"
        case p.GraphLaunch():
            return f"launch graph {op.exec}, {where}"
    head = f"{'instantiate' if isinstance(op, p.Graph) else 'update'} graph {op.exec} of {len(op.nodes)} nodes"
    nodes = [
        f"{k:3}  after {', '.join(map(str, n.after)) or '-':8}  {_work(program, n.work)}{'' if n.enabled else ', switched off'}"
        for k, n in enumerate(op.nodes)
    ]
    return "\n".join([head, *nodes])


def _on(program: Program, device: int) -> str:
    """Which device, where there are several."""
    return f", device {device}" if program.devices > 1 else ""


def _work(program: Program, op: Launch | Copy | Fill | None) -> str:
    match op:
        case Launch():
            grid, block = (" x ".join(map(str, _trimmed(v))) for v in (op.grid, op.block))
            args = ", ".join(place_of(program, Place(r.buffer, r.addend)) for r in op.relocations)
            shared = f", {size(op.shared)} shared" if op.shared else ""
            return f"kernel {short_name(op.kernel)}[{grid}, {block}]({args}){shared}"
        case Copy():
            rows = f"{op.rows} rows of " if op.rows > 1 else ""
            return f"copy {rows}{size(op.nbytes)}: {_from_to(program, op)}"
        case Fill():
            rows = f"{op.rows} rows of " if op.rows > 1 else ""
            return f"fill {place_of(program, op.to)} with {rows}{op.count} x {op.value:#x} of {op.width} bytes"
    return "nothing"


def _from_to(program: Program, op: Copy | p.HostCopy) -> str:
    source = "bytes of the host's own" if op.source is None else place_of(program, op.source)
    return f"{source} -> {place_of(program, op.to)}"


def name_of(program: Program, buffer: int) -> str:
    """The exercise's name for it, or "#3"."""
    return program.buffers[buffer].name or f"#{buffer}"


def place_of(program: Program, place: Place) -> str:
    """ "x", "x[512]" or "#3 + 100 bytes"."""
    b: Buffer = program.buffers[place.buffer]
    if not place.offset:
        return name_of(program, place.buffer)
    width = int(b.dtype[2:]) if b.dtype else 0
    if width and not place.offset % width:
        return f"{b.name}[{place.offset // width}]"
    return f"{name_of(program, place.buffer)} + {place.offset} bytes"


def size(nbytes: int) -> str:
    """ "96 B", "4.00 KiB"."""
    for unit, least in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if nbytes >= least:
            return f"{nbytes / least:.2f} {unit}"
    return f"{nbytes} B"


def _trimmed(v: tuple[int, int, int]) -> tuple[int, ...]:
    """Without the ones at the end."""
    return v[: max(k for k in range(1, 4) if k == 1 or v[k - 1] != 1)]
