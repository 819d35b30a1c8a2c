"""Device-visible memory: real host memory at real addresses, with red zones and a table of what is allocated."""

import mmap
from dataclasses import dataclass, field

import numpy as np

from ..jit.raw import raw_view
from ..jit.state import ALLOC_DIRTY, ALLOC_INDEX, ALLOC_INIT, ALLOC_KIND, ALLOC_RACE, ALLOC_TOUCHED, ALLOC_WORDS
from ..ranges import Ranges
from .heap import HEAP_HEADER

POISON = 0xCB  # what fresh memory holds
RED_ZONE = 256  # bytes before and after every allocation that belong to nobody
GRAVES, GRAVE_BYTES = (
    256,
    32 << 20,
)  # freed allocations that are remembered, and bytes that are held so that nothing new gets there
RACE_LIMIT = 16 << 20  # bytes; global racecheck keeps 4 bytes of shadow a byte, so larger allocations go without
KINDS = ("device", "managed", "host", "registered", "constant", "heap")
HEAP_BYTES = 8 << 20  # what malloc in kernels draws on: the driver's default limit


@dataclass(eq=False)
class Allocation:
    """A live range of device-visible memory."""

    address: int
    nbytes: int
    kind: str  # one of KINDS
    label: str | None = None  # what the program calls it
    index: int = 0  # order of allocation
    buffer: object = field(default=None, repr=False)  # keeps the bytes alive
    init: np.ndarray | None = field(default=None, repr=False)  # one byte a byte: 1 once written
    race: np.ndarray | None = field(default=None, repr=False)  # racecheck's shadow
    race_used: bool = field(default=False, repr=False)  # by the last launch: to be cleared before the next

    @property
    def end(self) -> int:
        return self.address + self.nbytes


class Memory:
    """Every address that kernels of one context may touch."""

    def __init__(self):
        self._live = Ranges()
        self._freed: list[Allocation] = []  # newest last
        self._count = 0
        self._table = None
        self._heap: Allocation | None = None

    def allocate(self, nbytes: int, kind: str = "device", *, label: str | None = None) -> Allocation:
        """A new allocation, 256-byte aligned, poisoned, marked as never written where initcheck watches it. Managed and
        pinned memory have their pages to themselves.

        Raises ValueError for a size that is not positive or an unknown kind, MemoryError when the host has no room.
        """
        if nbytes <= 0:
            raise ValueError(f"an allocation needs at least one byte, not {nbytes}")
        if kind not in KINDS:
            raise ValueError(f"unknown kind of memory {kind!r}: one of {', '.join(KINDS)}")
        paged = kind in ("managed", "host")
        align = mmap.PAGESIZE if paged else 256
        size = nbytes + 2 * RED_ZONE + align
        try:
            buffer = mmap.mmap(-1, size) if paged or size >= 1 << 16 else np.empty(size, np.uint8)
        except (OSError, ValueError, OverflowError) as error:
            raise MemoryError(f"no room for {nbytes} bytes") from error
        base = np.frombuffer(buffer, np.uint8).ctypes.data if isinstance(buffer, mmap.mmap) else buffer.ctypes.data
        address = -(-(base + RED_ZONE) // align) * align
        allocation = Allocation(address, nbytes, kind, label, self._count, buffer)
        if kind not in ("managed", "host"):  # these the host may write unseen
            allocation.init = np.zeros(nbytes, np.uint8)
        self._add(allocation)
        self.view(address, nbytes)[:] = POISON
        return allocation

    def heap(self) -> Allocation:
        """What malloc in kernels draws on, made at the first call. Racecheck and initcheck do not watch it."""
        if self._heap is None:
            self._heap = self.allocate(HEAP_BYTES, "heap", label="the heap of malloc")
            self._heap.init = None
            self.view(self._heap.address, HEAP_HEADER)[:] = 0
        return self._heap

    def register(self, address: int, nbytes: int, label: str | None = None) -> Allocation:
        """Make foreign host memory device-visible. Raises ValueError when it overlaps a live allocation."""
        if nbytes <= 0:
            raise ValueError("cannot register an empty range")
        if self._live.overlapping(address, nbytes):
            raise ValueError("the range overlaps memory that is allocated or registered already")
        allocation = Allocation(address, nbytes, "registered", label, self._count)
        self._add(allocation)
        return allocation

    def _add(self, allocation: Allocation):
        self._note_touched()
        self._count += 1
        self._live[allocation.address] = allocation
        self._table = None

    def free(self, address: int):
        """Raises ValueError when no live allocation starts at `address`."""
        if address not in self._live:
            raise ValueError(f"{address:#x} is not the start of a live allocation")
        self._note_touched()
        gone = self._live.pop(address)
        self._table = None
        gone.init = gone.race = None
        self._freed = [*self._freed[1 - GRAVES :], gone]
        held = 0
        for allocation in reversed(self._freed):
            held += allocation.nbytes
            if held > GRAVE_BYTES:
                allocation.buffer = None

    def find(self, address: int) -> Allocation | None:
        """The live allocation that holds `address`."""
        return self._live.find(address)

    def find_freed(self, address: int) -> Allocation | None:
        """The allocation that held `address` last, when nothing does now."""
        if self.find(address) is not None:
            return None
        return next((a for a in reversed(self._freed) if a.address <= address < a.end), None)

    def nearest(self, address: int) -> Allocation | None:
        """The live allocation whose range lies closest to `address`: whom an out-of-bounds access most likely meant."""
        return self._live.nearest(address)

    def view(self, address: int, nbytes: int) -> np.ndarray:
        """The bytes as a uint8 array that shares them. Raises ValueError when they are not inside one live allocation."""
        allocation = self.find(address)
        if allocation is None or address + nbytes > allocation.end or nbytes < 0:
            raise ValueError(f"{nbytes} bytes at {address:#x} are not inside a live allocation")
        return raw_view(address, nbytes)

    def written(self, address: int, nbytes: int):
        """Note for initcheck that the host or a copy wrote these bytes."""
        allocation = self.find(address)
        if allocation is not None and allocation.init is not None:
            at = address - allocation.address
            allocation.init[at : at + nbytes] = 1

    def copy_written(self, target: int, source: int, nbytes: int):
        """Note for initcheck that bytes were copied: they are as written as the source's were."""
        to, at = self.find(target), self.find(source)
        if to is None or to.init is None:
            return
        k = target - to.address
        if at is None or at.init is None:
            to.init[k : k + nbytes] = 1
        else:
            j = source - at.address
            to.init[k : k + nbytes] = at.init[j : j + nbytes]

    def all_written(self):
        """A kernel ran unobserved: initcheck knows nothing any more."""
        for allocation in self._live.values():
            allocation.init = None

    @property
    def allocations(self) -> list[Allocation]:
        """Live allocations in order of address."""
        return self._live.ordered()

    def _note_touched(self):
        """Take from the table, which may be about to go, what the last launch has touched."""
        for row, a in zip(self._table[1], self.allocations, strict=False) if self._table else ():
            if row[ALLOC_TOUCHED]:
                a.race_used, row[ALLOC_TOUCHED] = True, 0

    def touched(self) -> list[Allocation]:
        """Right after a launch with racecheck: the allocations that it read or wrote and that have a shadow."""
        self._note_touched()
        return [a for a in self.allocations if a.race is not None and a.race_used]

    def table(self, races: bool, shift: int) -> np.ndarray:
        """Rows for the machine (state.ALLOC_WORDS); with `races`, shadows for allocations up to RACE_LIMIT."""
        self._note_touched()
        key = (races, shift)
        if self._table is None or self._table[0] != key:
            rows = np.zeros((len(self._live) or 1, ALLOC_WORDS), np.int64)
            for row, a in zip(rows, self.allocations, strict=False):
                row[0], row[1] = a.address, a.end
                row[ALLOC_KIND], row[ALLOC_INDEX] = KINDS.index(a.kind), a.index
                if races and a.nbytes <= RACE_LIMIT and a.kind != "heap":
                    words = (a.nbytes >> shift) + 2
                    if a.race is None or len(a.race) != 2 * words:
                        a.race = np.zeros(2 * words, np.int64)
                        a.race_used = False
                    row[ALLOC_RACE] = a.race.ctypes.data
            self._table = (key, rows)
        rows = self._table[1]
        rows[:, ALLOC_DIRTY] = 0
        for row, a in zip(rows, self.allocations, strict=False):
            if row[ALLOC_RACE] and a.race_used:
                a.race[:] = 0
                a.race_used = False
            if a.init is not None and a.init.all():
                a.init = None  # bytes never become unwritten: nothing to watch any more
            row[ALLOC_INIT] = a.init.ctypes.data if a.init is not None else 0
        return rows
