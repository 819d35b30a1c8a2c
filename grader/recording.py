"""From the virtual driver's stream of operations to a `Program`: addresses become (buffer, offset).

Runs in the process that the student's code ran in, so what it makes is a claim, checked again by whoever receives it.
"""

from bisect import bisect_right, insort
from collections.abc import Callable
from dataclasses import dataclass, replace

from grader.program import Buffer, Copy, Fill, Launch, Op, Place, Program, ProgramError, Record, Relocation, Sync, Wait

MAX_INITIAL = 64 << 20
_STREAMS = {"blocking": "blocking", "nonblocking": "non-blocking", "per_thread": "per-thread"}
_SILENT = {
    "module_unload",
    "symbol",
    "attribute",
    "stream_destroy",
    "event_create",
    "event_destroy",
    "elapsed",
    "query",
}


@dataclass(frozen=True)
class Declared:
    """An array that the exercise handed to the submission."""

    name: str
    address: int
    nbytes: int
    role: str  # "input", "output" or "inout"
    dtype: str  # "<f4"
    shape: tuple[int, ...]


class Recorder:
    """Give it to `grader.vgpu.driver.record`; call `begin` when the arrays are ready, `end` when the work is submitted.

    `read(address, nbytes)` returns the present bytes of device memory; it is asked for memory that existed before the
    timed part and that the exercise did not hand out (a table that the submission uploaded when it was imported).
    """

    def __init__(self, read: Callable[[int, int], bytes]):
        self._read = read
        self._live: dict[int, tuple[int, str]] = {}  # address -> (nbytes, kind)
        self._sorted: list[int] = []
        self._ptx: dict[int, bytes] = {}
        self._stream_kinds: dict[int, str] = {}
        self._symbols: list[tuple[int, int]] = []  # (start, end) of modules' variables
        self._recording = False
        self._earlier: dict[int, bytes] = {}  # contents of memory that was there before the first timed part
        self.reason: str | None = None  # why the timed part cannot be replayed

    def __call__(self, op: dict) -> None:
        """Take one operation."""
        kind = op["op"]
        if kind == "alloc":
            self._alloc(op["address"], op["nbytes"], op["kind"])
        elif kind == "free":
            self._free(op["address"])
        elif kind == "module":
            self._ptx[op["module"]] = op["ptx"].rstrip(b"\0")
        elif kind == "symbol":
            self._symbols.append((op["address"], op["address"] + op["nbytes"]))
        elif kind == "stream":
            self._stream_kinds[op["stream"]] = _STREAMS[op["kind"]]
        elif self._recording and kind not in _SILENT and self.reason is None:
            try:
                self._take(kind, op)
            except ProgramError as e:
                self.reason = str(e)

    def begin(self, declared: list[Declared]) -> None:
        """The timed part starts: from here on operations are kept."""
        self._buffers: list[Buffer] = []
        self._index: dict[int, int] = {}  # address of a live allocation -> buffer
        self._modules: dict[int, int] = {}
        self._streams: dict[int, int] = {0: 0}
        self._blobs: list[bytes] = []
        self._ops: list[Op] = []
        self.reason = None
        for d in declared:
            if d.address not in self._live:
                raise ProgramError(f"array {d.name} is not in device memory")
            self._index[d.address] = len(self._buffers)
            self._buffers.append(Buffer(d.nbytes, self._live[d.address][1], d.role, d.name, d.dtype, d.shape))
        others = [a for a in self._live if a not in self._index]
        if sum(self._live[a][0] for a in others) > MAX_INITIAL:
            raise ProgramError(
                f"the submission keeps more than {MAX_INITIAL >> 20} MB on the device before it is called"
            )
        for address in others:
            nbytes, kind = self._live[address]
            # Read once: a second look would make the device do what earlier timed parts submitted.
            if address not in self._earlier:
                self._earlier[address] = self._read(address, nbytes)
            self._add(address, nbytes, kind, self._earlier[address])
        self._declared = [d.address for d in declared]
        self._recording = True

    def end(self) -> Program:
        """The timed part is submitted: the program. ProgramError says why there can be none."""
        self._recording = False
        for address in self._declared:
            self._free(address)  # no part of a later timed part
        if self.reason:
            raise ProgramError(self.reason)
        built_in = [a for a in self._index if any(str(a).encode() in self._ptx[m] for m in self._modules)]
        if built_in:
            raise ProgramError("the kernel has the address of a global device array built in: pass it as a parameter")
        names = {0: "legacy"} | self._stream_kinds
        return Program.make(
            self._buffers,
            [self._ptx[m] for m in self._modules],
            self._ops,
            blobs=tuple(self._blobs),
            streams=tuple(names[s] for s in self._streams),
        )

    def _alloc(self, address: int, nbytes: int, kind: str) -> None:
        kind = "host" if kind == "registered" else kind
        self._live[address] = (nbytes, kind)
        insort(self._sorted, address)
        if self._recording:
            self._add(address, nbytes, kind, None)

    def _free(self, address: int) -> None:
        if self._live.pop(address, None) is not None:
            del self._sorted[bisect_right(self._sorted, address) - 1]
            if self._recording:
                self._index.pop(address, None)

    def _add(self, address: int, nbytes: int, kind: str, contents: bytes | None) -> None:
        if contents is not None:
            self._blobs.append(contents)
        self._index[address] = len(self._buffers)
        self._buffers.append(Buffer(nbytes, kind, "temp", initial=None if contents is None else len(self._blobs) - 1))

    def _find(self, address: int) -> tuple[int, int] | None:
        """(buffer, offset) of an address inside a live allocation, or one past the end of one."""
        at = bisect_right(self._sorted, address) - 1
        if at < 0:
            return None
        base = self._sorted[at]
        if address - base > self._live[base][0]:
            return None
        return self._index[base], address - base

    def _place(self, address: int) -> Place:
        found = self._find(address)
        if found is None:
            raise ProgramError(f"memory at {address:#x} belongs to no allocation of this program")
        return Place(*found)

    def _touches_symbol(self, op: dict) -> bool:
        return any(start <= op.get(end, 0) < stop for end in ("dst", "src") for start, stop in self._symbols)

    def _stream(self, number: int) -> int:
        return self._streams.setdefault(number, len(self._streams))

    def _take(self, kind: str, op: dict) -> None:
        if kind == "launch":
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
            self._ops.append(replace(launch, stream=self._stream(op["stream"]), cooperative=op["cooperative"]))
        elif kind in ("set", "copy") and self._touches_symbol(op):
            pass  # numba's own: kernels compiled with debug=True have an error flag, cleared before and read after
        elif kind == "copy":
            self._ops.append(self._copy(op))
        elif kind == "set":
            if op["rows"] != 1:
                raise ProgramError("a 2-D memset cannot be replayed yet")
            to, stream = self._place(op["dst"]), self._stream(op["stream"])
            self._ops.append(Fill(to, op["element"], op["value"], op["count"], stream))
        elif kind == "event":
            self._ops.append(Record(op["event"], self._stream(op["stream"])))
        elif kind == "wait":
            self._ops.append(Wait(self._stream(op["stream"]), op["event"]))
        elif kind == "sync":
            number = op["id"] or 0
            self._ops.append(Sync(op["kind"], self._stream(number) if op["kind"] == "stream" else number))
        else:
            raise ProgramError(f"the operation {kind!r} cannot be replayed yet")

    def _copy(self, op: dict) -> Copy:
        if op["rows"] != 1:
            raise ProgramError("a 2-D copy cannot be replayed yet")
        if op["dst_device"] is None:
            raise ProgramError(
                "results were copied to ordinary host memory in the timed part; that cannot be replayed yet"
            )
        blob = None
        if op["data"] is not None:
            self._blobs.append(bytes(op["data"]))
            blob = len(self._blobs) - 1
        source = None if blob is not None else self._place(op["src"])
        stream = self._stream(op["stream"])
        return Copy(self._place(op["dst"]), source, op["nbytes"], blob, stream, blocking=not op["async"])
