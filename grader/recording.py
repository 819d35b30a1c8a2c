"""From the virtual driver's stream of operations to a `Program`.

Runs in the process that the student's code ran in, so what it makes is a claim, checked again by whoever receives it.
"""

from collections.abc import Callable
from dataclasses import replace

from grader import program as p
from grader.addresses import Addresses, Declared
from grader.program import (
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


class Recorder:
    """Give it to `grader.vgpu.driver.record`; call `begin` when the arrays are ready, `end` when the work is submitted.

    `read(address, nbytes)` returns the present bytes of device memory; it is asked for memory that existed before the
    timed part and that the exercise did not hand out (a table that the submission uploaded when it was imported).
    `where()` tells the file and the line of the submission that is being executed.
    """

    def __init__(self, read: Callable[[int, int], bytes], where: Callable[[], tuple[str, int]] = lambda: ("", 0)):
        self._where = where
        self._memory = Addresses(read, where)
        self._ptx: dict[int, bytes] = {}
        self._stream_kinds: dict[int, tuple[str, int, int]] = {}  # kind, priority, device
        self._symbols: list[tuple[int, int]] = []  # (start, end) of modules' variables
        self._recording = False
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
        self._modules: dict[int, int] = {}
        self._streams: dict[tuple[int, int], int] = {(0, 0): 0}  # (number, device for number 0) -> stream
        self._ops: list[Op] = []
        self._places: list[tuple[str, int]] = []
        self._execs: dict[int, int] = {}
        self._events: dict[int, int] = {}
        self._in_graphs: set[int] = set()  # addresses of memory that graphs allocate
        self._clock = clock
        self.reason = None
        self._memory.begin(declared, clock, devices)
        self._host = self._memory.host
        self._recording = True

    def end(self) -> Program:
        """The timed part is submitted: the program. ProgramError says why there can be none."""
        if self._recording and self.reason is None:
            self._host_wrote()
        if self._recording:
            addresses = self._memory.known()
            self._memory.end()
        self._recording = False
        if self.reason:
            raise ProgramError(self.reason)
        if any(str(address).encode() in self._ptx[m] for m in self._modules for address in addresses):
            raise ProgramError("the kernel has the address of a global device array built in: pass it as a parameter")
        streams = [self._stream_kinds[s] if s else ("legacy", 0, device) for s, device in self._streams]
        priorities, on = (tuple(of[k] for of in streams) for k in (1, 2))
        return Program.make(
            self._memory.buffers,
            [self._ptx[m] for m in self._modules],
            self._ops,
            blobs=tuple(self._memory.blobs),
            streams=tuple(kind for kind, _, _ in streams),
            stream_devices=on if any(on) else (),
            devices=self._memory.devices,
            priorities=priorities if any(priorities) else (),
            clock=self._clock,
            places=tuple(self._places) if self._clock == "host" else (),
        )

    def _put(self, op: Op) -> None:
        self._ops.append(op)
        self._places.append(self._where())

    # --- memory that comes and goes -------------------------------------------------------------------------------

    def _alloc(self, op: dict) -> None:
        address, nbytes, kind = op["address"], op["nbytes"], op["kind"]
        if kind == "registered":
            self._register(address, nbytes)
            return
        self._memory.appear(address, nbytes, kind, op["device"])
        if self._recording:
            index = self._memory.add(address)
            if self._clock == "host":
                self._put(p.Alloc(index, None if op["stream"] is None else self._stream(op)))

    def _register(self, address: int, nbytes: int) -> None:
        """Pageable memory is page-locked: an array of the exercise, or memory of the program's own."""
        if not self._recording:
            self._memory.appear(address, nbytes, "host")
            return
        self._host_wrote()
        place = self._memory.find(address)
        if place is None or place[1] + nbytes > self._memory.buffers[place[0]].nbytes:
            place = self._memory.add_pageable(address, nbytes), 0
            self._host.drop(place[0])
            self._host.add(place[0], address, nbytes)
        self._host.registered(place[0])
        self._put(p.Register(Place(*place), nbytes))

    def _free(self, address: int, op: dict) -> None:
        if self._recording:
            self._memory.find(address)  # of memory that was there before, this is a use
        if self._recording and self._memory.inside_pageable(address, 1):
            place = self._memory.place(address)
            self._host.unregistered(place.buffer)
            self._put(p.Unregister(place))
            return
        if self._recording and self._clock == "host" and (buffer := self._memory.buffer_at(address)) is not None:
            self._host_wrote()
            if address not in self._in_graphs:  # it stays for the next launch of the graph
                self._put(p.Free(buffer, None if op["stream"] is None else self._stream(op)))
        self._memory.vanish(address)

    def _touches_symbol(self, op: dict) -> bool:
        return any(start <= op.get(end, 0) < stop for end in ("dst", "src") for start, stop in self._symbols)

    def _stream(self, op: dict, key: str = "stream") -> int:
        """The stream that an operation names; 0 is the default stream of the operation's device."""
        number = op[key] or 0
        return self._streams.setdefault((number, 0 if number else op["device"]), len(self._streams))

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
            self._put(p.HostWrite(to, self._memory.blob(data)))

    # --- operations -----------------------------------------------------------------------------------------------

    def _take(self, kind: str, op: dict) -> None:
        self._memory.uses(op["device"])
        if kind == "pool_access" and op["peer"] == op["device"]:
            return  # a pool of the host's memory, for the device that uses it
        if kind in ("set", "copy") and self._touches_symbol(op):
            return  # numba's own: kernels compiled with debug=True have an error flag, cleared before and read after
        if kind == "landed":
            if found := self._memory.find(op["address"]):  # else memory that no operation of the program names
                self._host.landed(*found, op["nbytes"])
            return
        self._host_wrote()
        if kind == "host":
            place = self._memory.place(op["address"])
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
            self._memory.uses(op["peer"])
            self._put(p.Peer(op["device"], op["peer"], op["enabled"]))
        elif kind == "prefetch":
            where = self._memory.place(op["address"]), op["nbytes"]
            self._put(p.Prefetch(*where, self._location(op["location"]), self._stream(op)))
        elif kind == "advise":
            where = self._memory.place(op["address"]), op["nbytes"]
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
            self._memory.uses(int(name.partition(":")[2] or 0))
        return "device" if name == "device:0" else name

    def _event(self, number: int) -> int:
        return self._events.setdefault(number, len(self._events))

    def _work(self, kind: str, op: dict) -> Launch | Fill:
        """A kernel or a memset, of a stream or of a graph."""
        if kind == "set":
            return Fill(
                self._memory.place(op["dst"]), op["element"], op["value"], op["count"], rows=op["rows"],
                pitch=op["pitch"] if op["rows"] > 1 else 0,
            )  # fmt: skip
        if op["cluster"]:
            raise ProgramError("a launch with clusters cannot be replayed yet")
        args = bytearray(op["args"])
        relocations = []
        for offset in range(0, len(args) - 7, 8):
            found = self._memory.find(int.from_bytes(args[offset : offset + 8], "little"))
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
            source = self._memory.place(op["src"])
        else:
            found = self._pageable_source(op)
            source, blob = (found, None) if found else (None, self._memory.blob(op["data"]))
        if op["dst_device"] is None and not self._memory.inside_pageable(op["dst"], _extent(op, "dst")):
            self._memory.add_pageable(op["dst"], _extent(op, "dst"))
        stream = self._stream(op)
        copy = Copy(self._memory.place(op["dst"]), source, op["nbytes"], blob, stream, blocking=not op["async"])
        if op["rows"] > 1:
            joined = {"source_pitch": op["nbytes"] if blob is not None else op["src_pitch"]}
            copy = replace(copy, rows=op["rows"], to_pitch=op["dst_pitch"], **joined)
        return copy

    def _pageable_source(self, op: dict) -> Place | None:
        """Where the bytes of a copy from ordinary memory are in the program; None: the host made them."""
        if self._memory.inside_pageable(op["src"], _extent(op, "src")):
            place = self._memory.place(op["src"])
            if op["rows"] > 1 or self._host.holds(place.buffer, place.offset, op["data"]):
                return place
        if op["rows"] > 1:
            return None
        found = self._host.source_of(op["data"])
        if found is None:
            return None
        index = self._memory.add_pageable(op["src"], len(op["data"]))  # the host has copied it to memory of its own
        self._host.landed(index, 0, len(op["data"]))
        self._put(p.HostCopy(Place(index, 0), Place(*found), len(op["data"])))
        return Place(index, 0)

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
            if self._memory.buffer_at(node["address"]) is None:
                self._memory.appear(node["address"], node["nbytes"], node["kind"], node["device"])
                self._memory.add(node["address"])
                self._in_graphs.add(node["address"])
            return None
        if kind in ("empty", "free"):
            return None
        raise ProgramError(f"a graph with a node of the kind {kind!r} cannot be replayed: keep it out of the graph")


def _extent(op: dict, end: str) -> int:
    """Bytes from the first that a copy touches at one end to the last."""
    return op[f"{end}_pitch"] * (op["rows"] - 1) + op["nbytes"]
