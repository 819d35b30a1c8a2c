"""From the virtual driver's stream of operations to a `Program`: addresses become (buffer, offset).

Runs in the process that the student's code ran in, so what it makes is a claim, checked again by whoever receives it.
"""

from bisect import bisect_right, insort
from collections.abc import Callable
from dataclasses import dataclass, replace

from grader import program as p
from grader.evidence import place as line_of
from grader.hostbytes import HostBytes
from grader.program import (
    Buffer,
    Copy,
    Fill,
    Launch,
    Node,
    Op,
    Place,
    Program,
    ProgramError,
    Record,
    Relocation,
    Sync,
    Wait,
)

MAX_INITIAL = 64 << 20
_STREAMS = {"blocking": "blocking", "nonblocking": "non-blocking", "per_thread": "per-thread"}
_SILENT = {
    *("module_unload", "symbol", "attribute", "stream_destroy", "event_create", "event_destroy", "elapsed"),
    *("graph_destroy", "pool", "pool_set", "pool_destroy"),
}
_REFUSED = {
    "host_func": "a host function in a stream cannot be replayed: wait for the stream and go on in Python",
    "discard": "discarding managed memory cannot be replayed yet: leave it out",
    "pool_access": "a memory pool that several GPUs reach cannot be replayed: allocate without one, and enable peer access",
}


@dataclass(frozen=True)
class Declared:
    """An array that the exercise handed to the submission."""

    name: str
    address: int
    nbytes: int
    role: str  # "input", "output", "inout" or "scratch"
    dtype: str  # "<f4"
    shape: tuple[int, ...]
    kind: str = "device"  # one of program.KINDS


class Recorder:
    """Give it to `grader.vgpu.driver.record`; call `begin` when the arrays are ready, `end` when the work is submitted.

    `read(address, nbytes)` returns the present bytes of device memory; it is asked for memory that existed before the
    timed part and that the exercise did not hand out (a table that the submission uploaded when it was imported).
    `where()` tells the file and the line of the submission that is being executed.
    """

    def __init__(self, read: Callable[[int, int], bytes], where: Callable[[], tuple[str, int]] = lambda: ("", 0)):
        self._read, self._where = read, where
        self._live: dict[int, tuple[int, str]] = {}  # address -> (nbytes, kind); pageable arrays while they are known
        self._sorted: list[int] = []
        self._ptx: dict[int, bytes] = {}
        self._stream_kinds: dict[int, tuple[str, int, int]] = {}  # kind, priority, device
        self._on: dict[int, int] = {}  # address of live memory -> device
        self._symbols: list[tuple[int, int]] = []  # (start, end) of modules' variables
        self._recording = False
        self._earlier: dict[int, bytes] = {}  # contents of memory that was there before the first timed part
        self.reason: str | None = None  # why the timed part cannot be replayed

    def __call__(self, op: dict) -> None:
        """Take one operation."""
        kind = op["op"]
        try:
            if kind == "alloc":
                self._alloc(op)
            elif kind == "free":
                self._free(op["address"], op)
            elif kind == "module":
                self._ptx[op["module"]] = op["ptx"].rstrip(b"\0")
            elif kind == "symbol":
                self._symbols.append((op["address"], op["address"] + op["nbytes"]))
            elif kind == "stream":
                self._stream_kinds[op["stream"]] = _STREAMS[op["kind"]], op["priority"], op["device"]
            elif self._recording and kind not in _SILENT and self.reason is None:
                self._take(kind, op)
        except ProgramError as e:
            self.reason = self.reason or str(e)

    def begin(self, declared: list[Declared], clock: str = "device", devices: int = 1) -> None:
        """The timed part starts: from here on operations are kept. `clock`: as in Program. devices: how many may be used."""
        self._devices, self._most_devices = 1, devices
        self._buffers: list[Buffer] = []
        self._index: dict[int, int] = {}  # address of a live allocation -> buffer
        self._modules: dict[int, int] = {}
        self._streams: dict[tuple[int, int], int] = {(0, 0): 0}  # (number, device for number 0) -> stream
        self._blobs: list[bytes] = []
        self._ops: list[Op] = []
        self._places: list[tuple[str, int]] = []
        self._made: list[int] = []  # addresses of what is allocated in the timed part
        self._execs: dict[int, int] = {}
        self._events: dict[int, int] = {}
        self._in_graphs: set[int] = set()  # addresses of memory that graphs allocate
        self._clock = clock
        self._host = HostBytes()
        self.reason = None
        for d in declared:
            if d.kind == "pageable":
                self._appear(d.address, d.nbytes, "pageable")
            if d.address not in self._live:
                raise ProgramError(f"array {d.name} is not in device memory")
            index = self._index[d.address] = len(self._buffers)
            self._buffers.append(Buffer(d.nbytes, self._live[d.address][1], d.role, d.name, d.dtype, d.shape))
            if d.kind != "device":
                note = self._host.watch if d.kind == "pageable" else self._host.add
                note(index, d.address, d.nbytes)
        self._others = {a for a in self._live if a not in self._index}  # there before; part of the program once used
        few = sum(self._live[a][0] for a in self._others) <= MAX_INITIAL
        for address in self._others - self._earlier.keys() if few else ():
            # Read once: a second look would make the device do what earlier timed parts submitted.
            self._earlier[address] = self._read(address, self._live[address][0])
        self._declared = [d.address for d in declared]
        self._recording = True

    def end(self) -> Program:
        """The timed part is submitted: the program. ProgramError says why there can be none."""
        if self._recording and self.reason is None:
            self._host_wrote()
        self._recording = False
        for address in [*self._declared, *self._made]:
            self._vanish(address)  # no part of a later timed part
        if self.reason:
            raise ProgramError(self.reason)
        built_in = [
            a for a in (*self._index, *self._others) if any(str(a).encode() in self._ptx[m] for m in self._modules)
        ]
        if built_in:
            raise ProgramError("the kernel has the address of a global device array built in: pass it as a parameter")
        streams = [self._stream_kinds[s] if s else ("legacy", 0, device) for s, device in self._streams]
        priorities, on = (tuple(of[k] for of in streams) for k in (1, 2))
        return Program.make(
            self._buffers,
            [self._ptx[m] for m in self._modules],
            self._ops,
            blobs=tuple(self._blobs),
            streams=tuple(kind for kind, _, _ in streams),
            stream_devices=on if any(on) else (),
            devices=self._devices,
            priorities=priorities if any(priorities) else (),
            clock=self._clock,
            places=tuple(self._places) if self._clock == "host" else (),
        )

    def _put(self, op: Op) -> None:
        self._ops.append(op)
        self._places.append(self._where())

    # --- memory ---------------------------------------------------------------------------------------------------

    def _alloc(self, op: dict) -> None:
        address, nbytes, kind = op["address"], op["nbytes"], op["kind"]
        if kind == "registered":
            self._register(address, nbytes)
            return
        self._appear(address, nbytes, kind, op["device"])
        if self._recording:
            self._uses(op["device"])
            index = self._add(address, nbytes, kind, None)
            if self._clock == "host":
                self._put(p.Alloc(index, None if op["stream"] is None else self._stream(op)))

    def _register(self, address: int, nbytes: int) -> None:
        """Pageable memory is page-locked: an array of the exercise, or memory of the program's own."""
        if not self._recording:
            self._appear(address, nbytes, "host")
            return
        self._host_wrote()
        place = self._find(address)
        if place is None or place[1] + nbytes > self._buffers[place[0]].nbytes:
            place = self._new_pageable(address, nbytes), 0
            self._host.drop(place[0])
            self._host.add(place[0], address, nbytes)
        self._host.registered(place[0])
        self._put(p.Register(Place(*place), nbytes))

    def _free(self, address: int, op: dict) -> None:
        if self._recording:
            self._find(address)  # memory that was there before is part of the program from its first use, this one too
        if self._recording and self._inside_pageable(address, 1):
            place = self._place(address)
            self._host.unregistered(place.buffer)
            self._put(p.Unregister(place))
            return
        if self._recording and self._clock == "host" and address in self._index:
            self._host_wrote()
            if address not in self._in_graphs:  # it stays for the next launch of the graph
                self._put(p.Free(self._index[address], None if op["stream"] is None else self._stream(op)))
        self._vanish(address)

    def _appear(self, address: int, nbytes: int, kind: str, device: int = 0) -> None:
        if self._recording:
            self._made.append(address)
        self._on[address] = device
        self._live[address] = (nbytes, kind)
        insort(self._sorted, address)

    def _vanish(self, address: int) -> None:
        if self._live.pop(address, None) is not None:
            del self._sorted[bisect_right(self._sorted, address) - 1]
            self._earlier.pop(address, None)
            index = self._index.pop(address, None) if self._recording else None
            if index is not None:
                self._host.drop(index)

    def _add(self, address: int, nbytes: int, kind: str, contents: bytes | None) -> int:
        index = self._index[address] = len(self._buffers)
        initial = None if contents is None else self._blob(contents)
        self._uses(self._on[address])
        self._buffers.append(Buffer(nbytes, kind, "temp", initial=initial, device=self._on[address]))
        if kind in ("host", "managed"):
            self._host.add(index, address, nbytes)
        return index

    def _new_pageable(self, address: int, nbytes: int) -> int:
        """Ordinary memory of the submission's own. What lay there before has been freed meanwhile."""
        for start in [s for s in self._sorted if s < address + nbytes and s + self._live[s][0] > address]:
            if self._live[start][1] != "pageable" or start in self._declared:
                raise ProgramError("a copy reaches beyond an array of the exercise")
            self._vanish(start)
        self._appear(address, nbytes, "pageable")
        index = self._index[address] = len(self._buffers)
        self._buffers.append(Buffer(nbytes, "pageable", "temp"))
        self._host.keep(index, address, nbytes)
        return index

    def _blob(self, contents: bytes) -> int:
        self._blobs.append(bytes(contents))
        return len(self._blobs) - 1

    def _find(self, address: int) -> tuple[int, int] | None:
        """(buffer, offset) of an address inside a live allocation, or one past the end of one."""
        at = bisect_right(self._sorted, address) - 1
        if at < 0:
            return None
        base = self._sorted[at]
        if address - base > self._live[base][0]:
            return None
        if base in self._others:
            if base not in self._earlier:
                raise ProgramError(
                    f"the submission keeps more than {MAX_INITIAL >> 20} MB on the device before it is called"
                )
            self._others.remove(base)
            self._add(base, *self._live[base], self._earlier[base])
        return self._index[base], address - base

    def _place(self, address: int) -> Place:
        found = self._find(address)
        if found is None:
            raise ProgramError(
                "the function works on memory that it did not make in this call and that no argument is: if it was kept"
                " from an earlier call, make it anew in every call"
                if self._clock == "host"
                else f"memory at {address:#x} belongs to no allocation of this program"
            )
        return Place(*found)

    def _touches_symbol(self, op: dict) -> bool:
        return any(start <= op.get(end, 0) < stop for end in ("dst", "src") for start, stop in self._symbols)

    def _stream(self, op: dict, key: str = "stream") -> int:
        """The stream that an operation names; 0 is the default stream of the operation's device."""
        number = op[key] or 0
        return self._streams.setdefault((number, 0 if number else op["device"]), len(self._streams))

    def _uses(self, device: int) -> None:
        """Work or memory on a device: of those that the exercise's machine has."""
        self._devices = max(self._devices, device + 1)
        if self._devices > self._most_devices:
            where = line_of(*self._where())
            machine = "one GPU" if self._most_devices == 1 else f"{self._most_devices} GPUs"
            raise ProgramError(
                f"{where + ': ' if where else ''}GPU {device} is used, and the machine of this exercise has {machine}"
            )

    # --- what the host's own code does between the calls -----------------------------------------------------------

    def _host_wrote(self) -> None:
        """Say what the host has written to pageable arrays of the exercise since the last operation."""
        for buffer, offset, data in self._host.changes():
            self._host_write(Place(buffer, offset), data)

    def _host_write(self, to: Place, data: bytes) -> None:
        source = self._host.source_of(data, to)
        if source:
            self._put(p.HostCopy(to, Place(*source), len(data)))
        else:
            self._put(p.HostWrite(to, self._blob(data)))

    # --- operations -----------------------------------------------------------------------------------------------

    def _take(self, kind: str, op: dict) -> None:
        self._uses(op["device"])
        if kind == "pool_access" and op["peer"] == op["device"]:
            return  # a pool of the host's memory, for the device that uses it
        if kind in ("set", "copy") and self._touches_symbol(op):
            return  # numba's own: kernels compiled with debug=True have an error flag, cleared before and read after
        if kind == "landed":
            if found := self._find(op["address"]):  # else memory that no operation of the program names
                self._host.landed(*found, op["nbytes"])
            return
        self._host_wrote()
        if kind == "host":
            place = self._place(op["address"])
            if not self._host.told_before(place.buffer, place.offset, op["data"]):
                self._host_write(place, op["data"])
        elif kind in ("launch", "set"):
            self._put(replace(self._work(kind, op), stream=self._stream(op)))
        elif kind == "copy":
            self._put(self._copy(op))
        elif kind == "event":
            self._put(Record(self._event(op["event"]), self._stream(op)))
        elif kind == "wait":
            self._put(Wait(self._stream(op), self._event(op["event"])))
        elif kind == "sync" or (kind == "query" and op["ready"]):  # what the host does from here on, it does after that
            self._sync(op)
        elif kind == "query":
            pass
        elif kind == "peer":
            self._uses(op["peer"])
            self._put(p.Peer(op["device"], op["peer"], op["enabled"]))
        elif kind == "prefetch":
            where = self._place(op["address"]), op["nbytes"]
            self._put(p.Prefetch(*where, self._location(op["location"]), self._stream(op)))
        elif kind == "advise":
            where = self._place(op["address"]), op["nbytes"]
            self._put(p.Advise(*where, op["advice"], self._location(op["location"])))
        elif kind == "graph":
            made = self._execs.setdefault(op["exec"], len(self._execs))
            self._put(p.Graph(made, self._nodes(op), op["device"]))
        elif kind in ("graph_update", "graph_launch"):
            if op["exec"] not in self._execs:
                raise ProgramError("the graph was made before the function was called: capture it inside")
            made = self._execs[op["exec"]]
            if kind == "graph_update":
                self._put(p.GraphUpdate(made, self._nodes(op)))
            else:
                self._put(p.GraphLaunch(made, self._stream(op)))
        else:
            raise ProgramError(_REFUSED.get(kind, f"the operation {kind!r} cannot be replayed yet"))

    def _sync(self, op: dict) -> None:
        what = op["kind"]
        if what == "stream":
            self._put(Sync(what, self._stream(op, "id")))
        else:
            self._put(Sync(what, self._event(op["id"]) if what == "event" else op["device"]))

    def _location(self, name: str) -> str:
        """As a program has it: the first device has no number."""
        if name.startswith("device"):
            self._uses(int(name.partition(":")[2] or 0))
        return "device" if name == "device:0" else name

    def _event(self, number: int) -> int:
        return self._events.setdefault(number, len(self._events))

    def _work(self, kind: str, op: dict) -> Launch | Fill:
        """A kernel or a memset, of a stream or of a graph."""
        if kind == "set":
            return Fill(
                self._place(op["dst"]), op["element"], op["value"], op["count"], rows=op["rows"],
                pitch=op["pitch"] if op["rows"] > 1 else 0,
            )  # fmt: skip
        if op["cluster"]:
            raise ProgramError("a launch with clusters cannot be replayed yet")
        args = bytearray(op["args"])
        relocations = []
        for offset in range(0, len(args) - 7, 8):
            found = self._find(int.from_bytes(args[offset : offset + 8], "little"))
            if found:
                relocations.append(Relocation(offset, *found))
                args[offset : offset + 8] = bytes(8)
        module = self._modules.setdefault(op["module"], len(self._modules))
        grid, block = tuple(op["grid"]), tuple(op["block"])
        launch = Launch(module, op["kernel"], grid, block, op["shared"], bytes(args), tuple(relocations))
        return replace(launch, cooperative=op["cooperative"])

    def _copy(self, op: dict) -> Copy:
        blob, source = None, None
        if op["data"] is None:
            source = self._place(op["src"])
        else:
            found = self._pageable_source(op)
            source, blob = (found, None) if found else (None, self._blob(op["data"]))
        if op["dst_device"] is None and not self._inside_pageable(op["dst"], _extent(op, "dst")):
            self._new_pageable(op["dst"], _extent(op, "dst"))
        stream = self._stream(op)
        copy = Copy(self._place(op["dst"]), source, op["nbytes"], blob, stream, blocking=not op["async"])
        if op["rows"] > 1:
            joined = {"source_pitch": op["nbytes"] if blob is not None else op["src_pitch"]}
            copy = replace(copy, rows=op["rows"], to_pitch=op["dst_pitch"], **joined)
        return copy

    def _pageable_source(self, op: dict) -> Place | None:
        """Where the bytes of a copy from ordinary memory are in the program; None: the host made them."""
        if self._inside_pageable(op["src"], _extent(op, "src")):
            place = self._place(op["src"])
            if op["rows"] > 1 or self._host.holds(place.buffer, place.offset, op["data"]):
                return place
        if op["rows"] > 1:
            return None
        found = self._host.source_of(op["data"])
        if found is None:
            return None
        index = self._new_pageable(op["src"], len(op["data"]))  # the host has copied it to memory of its own
        self._host.landed(index, 0, len(op["data"]))
        self._put(p.HostCopy(Place(index, 0), Place(*found), len(op["data"])))
        return Place(index, 0)

    def _inside_pageable(self, address: int, nbytes: int) -> bool:
        found = self._find(address)
        if found is None:
            return False
        buffer = self._buffers[found[0]]
        return buffer.kind == "pageable" and found[1] + nbytes <= buffer.nbytes

    def _nodes(self, op: dict) -> tuple[Node, ...]:
        """The nodes of a graph; those of a graph within it among them."""
        found: list[Node] = []
        self._flatten(op["nodes"], (), op["device"], found)
        return tuple(found)

    def _flatten(self, nodes: list[dict], before: tuple[int, ...], device: int, found: list[Node]) -> tuple[int, ...]:
        """Add the nodes, which all come after `before`; the indices of those that nothing here comes after."""
        ends: list[tuple[int, ...]] = []  # of each node, where what comes after it has to wait
        for node in nodes:
            after = tuple(k for n in node["after"] for k in ends[n]) or before
            if node["op"] == "child":
                last = self._flatten(node["nodes"], after, device, found)
                ends.append(last or after)
                continue
            work = self._node(node | {"device": device})
            found.append(Node(work, after, node["enabled"] or work is None))
            ends.append((len(found) - 1,))
        inner = {n for node in nodes for n in node["after"]}
        return tuple(dict.fromkeys(k for n, end in enumerate(ends) if n not in inner for k in end))

    def _node(self, node: dict) -> Launch | Copy | Fill | None:
        kind = node["op"]
        if kind in ("launch", "set"):
            return self._work(kind, node)
        if kind == "copy":
            if None in (node["dst_device"], node["src_device"]):
                raise ProgramError(
                    "a graph that copies from or to ordinary memory cannot be replayed: use pinned memory"
                )
            return self._copy(node | {"stream": 0, "async": True, "data": None})
        if kind == "alloc":
            # Its memory is there from the start, as a pool's is: that costs a graph next to nothing.
            if node["address"] not in self._index:
                self._appear(node["address"], node["nbytes"], node["kind"], node["device"])
                self._add(node["address"], node["nbytes"], node["kind"], None)
                self._in_graphs.add(node["address"])
            return None
        if kind in ("empty", "free"):
            return None
        raise ProgramError(f"a graph with a node of the kind {kind!r} cannot be replayed: keep it out of the graph")


def _extent(op: dict, end: str) -> int:
    """Bytes from the first that a copy touches at one end to the last."""
    return op[f"{end}_pitch"] * (op["rows"] - 1) + op["nbytes"]
