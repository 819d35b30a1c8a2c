"""The host's own early reads and writes of memory that it shares with the device, as they happen.

From when work is asked for until it has been executed, the pages that it will write are closed to the host (PROT_NONE),
and those that it will read cannot be written (PROT_READ). `faulting` notes the first touch, with the line of the program
that made it, and opens the pages: the program goes on with the bytes that are there. Work is executed as late as the API
allows, so as long as it is queued no wait can have covered it.

What a copy or a memset touches is known when it is asked for: whoever touches it too is told at once. What a kernel
touches is known when it has run. Until then a touch of what its parameters let it reach is a suspicion; it is told if the
kernel did write that word, or did read it and the host wrote it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from grader.vgpu.driver import faulting
from grader.vgpu.driver.area import PAGE, Area, Touch
from grader.vgpu.driver.state import driver
from grader.vgpu.sanitize import host
from grader.vgpu.sanitize.findings import Finding
from grader.vgpu.sanitize.streams import Extents

MANY = 1024  # ranges under way; what more is queued goes unguarded
ROWS = 512  # of a pitched copy
SUSPICIONS = 256  # of one kernel


@dataclass(frozen=True, slots=True)
class _Suspicion:
    """The host has touched a byte that a queued kernel may touch."""

    touch: Touch
    address: int
    written: bool  # by the host
    place: tuple[str, int]  # of the host's access
    asked: int  # operations of the kernel's stream until then


class Guard:
    """What is under way, the pages that are protected for it, and what the host has done."""

    def __init__(self):
        self._areas: dict[object, Area] = {}  # by the allocation
        self._under_way: dict[object, list[Touch]] = {}  # by the operation
        self._count = 0  # of touches
        self._depth = 0  # of `opened`
        self._told: dict[int, int] = {}  # stream -> its newest operation when the host was reported not to wait for it
        self._suspicions: dict[tuple[object, int], dict[_Suspicion, None]] = {}  # by the operation and id() of the work

    # ------------------------------------------------------------------ queued work
    def asked(self, op, work) -> None:
        """An operation has been asked for."""
        if not (driver.options.racecheck or driver.options.hostcheck):
            return
        found = [touch for piece in work.parts() for touch in _touches(op, work, piece)]
        if not found or self._count + len(found) > MANY or not faulting.can_guard():
            return
        fresh = dict.fromkeys(touch.allocation for touch in found if touch.allocation not in self._areas)
        if len(self._areas) + len(fresh) > faulting.RANGES:
            return
        self._areas |= {allocation: Area(allocation) for allocation in fresh}
        if fresh:
            self._watch()
        self._under_way[op] = found
        self._count += len(found)
        for touch in found:
            self._areas[touch.allocation].add(touch)
        self._apply(touch.allocation for touch in found)

    def over(self, op) -> None:
        """An operation has been executed, or never will be."""
        touches = self._under_way.pop(op, ())
        for touch in touches:
            self._areas[touch.allocation].remove(touch)
            self._suspicions.pop((op, id(touch.work)), None)
        self._count -= len(touches)
        self._apply(touch.allocation for touch in touches)

    def drop(self, allocation) -> None:
        """An allocation is going: its pages are ordinary again."""
        if allocation not in self._areas:
            return
        self.settle()
        for touch in list(self._areas[allocation].touches):
            self._areas[allocation].remove(touch)
            self._under_way[touch.op].remove(touch)
            self._count -= 1
        self._areas[allocation].apply()
        self._tidy()

    def has_told(self, stream: int, index: int) -> bool:
        """The host was reported not to wait for this operation: the stream's handle, and which of its operations it is."""
        return index <= self._told.get(stream, 0)

    # ------------------------------------------------------------------ pages
    def limit(self, allocation):
        """What the host may do to each leaf of a managed allocation, as protections; None: nothing is under way there."""
        area = self._areas.get(allocation)
        return area.wanted if area is not None and area.touches else None

    @contextmanager
    def opened(self, start: int = 0, end: int = 1 << 64) -> Iterator[None]:
        """The driver itself reads and writes, from the one address to the other: that is no touch of the program's."""
        if not self._depth:
            self.settle()
            pinned = [area for area in self._areas.values() if not area.managed]
            if not any(area.guards(start, end) for area in pinned):
                yield
                return
            for area in pinned:
                area.apply(opened=True)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            self._apply(list(self._areas))

    def _apply(self, allocations) -> None:
        """Have in force what is wanted, unless the driver itself is at work."""
        from grader.vgpu.driver import paging

        for allocation in dict.fromkeys(allocations):
            if self._areas[allocation].managed:
                paging.limited(allocation)
            elif not self._depth:
                self._areas[allocation].apply()
        if not self._depth:
            self._tidy()

    def _tidy(self) -> None:
        """Leave alone what nothing is under way in. Its pages are open."""
        left = {allocation: area for allocation, area in self._areas.items() if area.touches}
        if len(left) < len(self._areas):
            self._areas = left
            self._watch()

    def _watch(self) -> None:
        faulting.watch("guard", [area.row() for area in self._areas.values() if not area.managed])

    # ------------------------------------------------------------------ what the host has touched
    def settle(self) -> None:
        """Take notice of what the host has touched since the last call. Called before anything is asked of the driver."""
        if not faulting.guard_noted():
            return
        from grader.vgpu.driver.memory import find

        for address, written, stack in faulting.take_guarded():
            area = self._areas.get(find(address))
            if area is not None:
                if not area.managed:
                    area.was_opened(address)
                self._touched(area, address, written, stack)
        self._apply([allocation for allocation, area in self._areas.items() if not area.managed])

    def _touched(self, area: Area, address: int, written: bool, stack: list[tuple[str, int]]) -> None:
        """Tell of the first operation that the host should have waited for before this; suspect kernels."""
        early = [
            touch
            for touch in area.touches
            if touch.start <= address < touch.end
            and (written or touch.writes)
            and not self.has_told(touch.op.stream.handle, touch.index)
        ]
        place = host.place_among(stack) if early else None
        if place is None:
            return
        certain = next((touch for touch in early if touch.certain), None)
        if certain is not None:
            suspicion = _Suspicion(certain, address, written, place, certain.op.stream.asked)
            self._tell(suspicion, "writes" if certain.writes else "reads")
            return
        for touch in early:
            held = self._suspicions.setdefault((touch.op, id(touch.work)), {})
            if len(held) < SUSPICIONS:
                held[_Suspicion(touch, address, written, place, touch.op.stream.asked)] = None

    def suspects(self, op, work) -> bool:
        """Whether it has to be known what a kernel touches: of an operation, or of a node of the graph launch."""
        return (op.outer or op, id(work)) in self._suspicions

    def judge(self, op, work, accesses: list[tuple]) -> None:
        """A kernel has run and this is what it has touched: (allocation, Access, name) of each allocation."""
        for suspicion in self._suspicions.pop((op.outer or op, id(work)), ()):
            touch, here = suspicion.touch, Extents.rows(suspicion.address, 1)
            if self.has_told(touch.op.stream.handle, touch.index):
                continue
            mine = [access for allocation, access, _ in accesses if allocation is touch.allocation]
            if any(access.writes.meet(here) for access in mine):
                self._tell(suspicion, "writes")
            elif suspicion.written and any(access.reads.meet(here) for access in mine):
                self._tell(suspicion, "reads")

    def _tell(self, early: _Suspicion, verb: str) -> None:
        """verb: what the operation does to the byte."""
        from grader.vgpu.driver.work import name_of, note

        touch = early.touch
        line = touch.place[1]
        there = f" (line {line})" if line else ""
        text = (
            f"the host {'writes' if early.written else 'reads'} byte {early.address - touch.allocation.address} of "
            f"{name_of(touch.allocation)}, which {touch.name}{there} {verb}, before that is over: "
            "wait for it first (synchronise the stream or an event)"
        )
        kind = "host before synchronisation" if verb == "writes" else "source changed"
        mine = early.place if early.place[1] else touch.place
        note(Finding("racecheck", kind, text, mine[1], mine[0], line if mine is early.place else 0))
        # One wait at this line would have covered all that was in the stream.
        stream = touch.op.stream.handle
        self._told[stream] = max(self._told.get(stream, 0), early.asked)


def _touches(op, work, piece) -> Iterator[Touch]:
    """What a piece of an operation's work touches of the host's memory, where the host does not wait for it at once."""
    where = op.stream.title() if piece is work else f"a graph in {op.stream.title()}"
    name = f"{piece.title()} in {where}"
    place = None
    for allocation, start, end, writes, certain in (*_of_copy(piece), *piece.reaches(op.stream.context)):
        place = place or ((op.point.file, op.point.line) if op.point else host.place())
        yield Touch(op, op.stream.asked, piece, allocation, start, end, writes, certain, name, place)


def _of_copy(piece) -> Iterator[tuple]:
    """(allocation, first address, end, whether it is written, True) of each range of a copy's or a memset's."""
    from grader.vgpu.driver.memory import find

    if not getattr(piece, "asynchronous", False):
        return
    for address, nbytes, rows, pitch, verb in piece.extents():
        allocation = find(address)
        if allocation is None or allocation.kind not in ("host", "registered"):
            continue
        if rows > 1 and pitch == nbytes:
            nbytes, rows = nbytes * rows, 1
        if rows > ROWS or (rows > 1 and nbytes < PAGE):  # no page is all theirs
            continue
        for row in range(rows):
            start = address + row * pitch
            yield allocation, start, start + nbytes, verb == "writes", True


GUARD = Guard()
