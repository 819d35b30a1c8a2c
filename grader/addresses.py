"""Which buffer of a recording an address is in. Part of `grader.recording`; runs in the process of the student's code."""

from bisect import bisect_right, insort
from collections.abc import Callable
from dataclasses import dataclass

from grader.evidence import place as line_of
from grader.hostbytes import HostBytes
from grader.program import Buffer, Place, ProgramError

MAX_INITIAL = 64 << 20


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


@dataclass(frozen=True)
class Live:
    """An allocation that is there; pageable arrays while they are known."""

    nbytes: int
    kind: str  # one of program.KINDS
    device: int


class Addresses:
    """Memory as the recording process has it, and the buffers that it becomes: those of the exercise, and what is used.

    `read(address, nbytes)` and `where()` as in `recording.Recorder`. Between `begin` and `end` the buffers and their
    contents grow; an address is only meaningful while what it is in lives.
    """

    def __init__(self, read: Callable[[int, int], bytes], where: Callable[[], tuple[str, int]]):
        self._read, self._where = read, where
        self._live: dict[int, Live] = {}
        self._sorted: list[int] = []
        self._earlier: dict[int, bytes] = {}  # contents of memory that was there before the first timed part
        self._recording = False

    def begin(self, declared: list[Declared], clock: str, devices: int) -> None:
        """Buffers are numbered from here on, the exercise's first. devices: how many may be used."""
        self.buffers: list[Buffer] = []
        self.blobs: list[bytes] = []
        self.host = HostBytes()
        self.devices, self._most_devices = 1, devices
        self._clock = clock
        self._index: dict[int, int] = {}  # address of a live allocation -> buffer
        self._made: list[int] = []  # addresses of what is allocated in the timed part
        for d in declared:
            if d.kind == "pageable":
                self.appear(d.address, d.nbytes, "pageable")
            if d.address not in self._live:
                raise ProgramError(f"array {d.name} is not in device memory")
            index = self._index[d.address] = len(self.buffers)
            self.buffers.append(Buffer(d.nbytes, self._live[d.address].kind, d.role, d.name, d.dtype, d.shape))
            if d.kind != "device":
                note = self.host.watch if d.kind == "pageable" else self.host.add
                note(index, d.address, d.nbytes)
        self._others = {a for a in self._live if a not in self._index}  # there before; part of the program once used
        few = sum(self._live[a].nbytes for a in self._others) <= MAX_INITIAL
        for address in self._others - self._earlier.keys() if few else ():
            # Read once: a second look would make the device do what earlier timed parts submitted.
            self._earlier[address] = self._read(address, self._live[address].nbytes)
        self._declared = [d.address for d in declared]
        self._recording = True

    def end(self) -> None:
        """What the exercise gave and the timed part allocated is no part of a later one."""
        self._recording = False
        for address in [*self._declared, *self._made]:
            self.vanish(address)

    def known(self) -> list[int]:
        """Where every allocation starts."""
        return [*self._index, *self._others]

    def appear(self, address: int, nbytes: int, kind: str, device: int = 0) -> None:
        """Memory has been allocated."""
        if self._recording:
            self._made.append(address)
        self._live[address] = Live(nbytes, kind, device)
        insort(self._sorted, address)

    def vanish(self, address: int) -> None:
        """It has been freed, or is not known any more."""
        if self._live.pop(address, None) is not None:
            del self._sorted[bisect_right(self._sorted, address) - 1]
            self._earlier.pop(address, None)
            index = self._index.pop(address, None) if self._recording else None
            if index is not None:
                self.host.drop(index)

    def add(self, address: int, contents: bytes | None = None) -> int:
        """A buffer for live memory; contents: that it had before the timed part."""
        live = self._live[address]
        self.uses(live.device)
        index = self._index[address] = len(self.buffers)
        initial = None if contents is None else self.blob(contents)
        self.buffers.append(Buffer(live.nbytes, live.kind, "temp", initial=initial, device=live.device))
        if live.kind in ("host", "managed"):
            self.host.add(index, address, live.nbytes)
        return index

    def add_pageable(self, address: int, nbytes: int) -> int:
        """A buffer for ordinary memory of the submission's own. What lay there before has been freed meanwhile."""
        for start in [s for s in self._sorted if s < address + nbytes and s + self._live[s].nbytes > address]:
            if self._live[start].kind != "pageable" or start in self._declared:
                raise ProgramError("a copy reaches beyond an array of the exercise")
            self.vanish(start)
        self.appear(address, nbytes, "pageable")
        index = self._index[address] = len(self.buffers)
        self.buffers.append(Buffer(nbytes, "pageable", "temp"))
        self.host.keep(index, address, nbytes)
        return index

    def blob(self, contents: bytes) -> int:
        """Keep bytes with the program."""
        self.blobs.append(bytes(contents))
        return len(self.blobs) - 1

    def buffer_at(self, address: int) -> int | None:
        """The buffer that starts at this address."""
        return self._index.get(address)

    def find(self, address: int) -> tuple[int, int] | None:
        """(buffer, offset) of an address inside a live allocation, or one past the end of one."""
        at = bisect_right(self._sorted, address) - 1
        if at < 0:
            return None
        base = self._sorted[at]
        if address - base > self._live[base].nbytes:
            return None
        if base in self._others:
            if base not in self._earlier:
                raise ProgramError(
                    f"the submission keeps more than {MAX_INITIAL >> 20} MB on the device before it is called"
                )
            self._others.remove(base)
            self.add(base, self._earlier[base])
        return self._index[base], address - base

    def place(self, address: int) -> Place:
        """The same, for an address that must be in a buffer."""
        found = self.find(address)
        if found is None:
            raise ProgramError(
                "the function works on memory that it did not make in this call and that no argument is: if it was kept"
                " from an earlier call, make it anew in every call"
                if self._clock == "host"
                else f"memory at {address:#x} belongs to no allocation of this program"
            )
        return Place(*found)

    def inside_pageable(self, address: int, nbytes: int) -> bool:
        """So many bytes from there lie in one pageable buffer."""
        found = self.find(address)
        if found is None:
            return False
        buffer = self.buffers[found[0]]
        return buffer.kind == "pageable" and found[1] + nbytes <= buffer.nbytes

    def uses(self, device: int) -> None:
        """Work or memory on a device: of those that the exercise's machine has."""
        self.devices = max(self.devices, device + 1)
        if self.devices > self._most_devices:
            where = line_of(*self._where())
            machine = "one GPU" if self._most_devices == 1 else f"{self._most_devices} GPUs"
            raise ProgramError(
                f"{where + ': ' if where else ''}GPU {device} is used, and the machine of this exercise has {machine}"
            )
