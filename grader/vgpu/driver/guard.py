"""The host's own early reads and writes of page-locked memory, as they happen.

From when a copy or a memset is asked for until it has been executed, the pages that it will write are closed to the host
(PROT_NONE), and those that it will read cannot be written (PROT_READ). `faulting` notes the first touch, with the line of
the program that made it, and opens the pages: the program goes on with the bytes that are there.

Only pages of which every byte is under way are protected, so whoever touches one touches what it may not, and a system
call that is handed the bytes next to them does not fail. What a kernel touches is not known before it has run: `watch`
compares bytes there. Work is executed as late as the API allows, so as long as it is queued no wait can have covered it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from grader.vgpu.driver import faulting
from grader.vgpu.driver.faulting import NONE, READ, WHOLE, WRITE
from grader.vgpu.driver.state import driver
from grader.vgpu.sanitize import host
from grader.vgpu.sanitize.findings import Finding

PAGE = 4096
MANY = 512  # ranges under way, and runs of pages that are protected; what more is queued goes unguarded


@dataclass(eq=False, slots=True)
class _Touch:
    """A range of an allocation that a queued operation will read or write."""

    op: object  # queue.Op
    index: int  # which of its stream's operations that is
    work: object  # the operation's, or that of a node of its graph
    allocation: object
    start: int
    end: int
    writes: bool
    name: str  # the operation in words
    place: tuple[str, int]  # where the host asked for it


class Guard:
    """The pages that are protected, and why."""

    def __init__(self):
        self._touches: list[_Touch] = []  # in the order of the program
        self._runs: list[tuple[int, int, int]] = []  # pages in force that lie together: first address, end, protection
        self._faulted = False  # some of them have been opened since
        self._depth = 0  # of `opened`
        self._told: dict[int, int] = {}  # stream -> its newest operation when the host was reported not to wait for it

    # ------------------------------------------------------------------ queued work
    def asked(self, op, work) -> None:
        """An operation has been asked for."""
        if not (driver.options.racecheck or driver.options.hostcheck):
            return
        found = [touch for piece in work.parts() for touch in _touches(op, work, piece)]
        if found and len(self._touches) + len(found) <= MANY and faulting.can_guard():
            self._touches += found
            self._apply()

    def over(self, op) -> None:
        """An operation has been executed, or never will be."""
        if any(touch.op is op for touch in self._touches):
            self._forget(lambda touch: touch.op is op)

    def drop(self, allocation) -> None:
        """An allocation is going: its pages are ordinary again."""
        if any(touch.allocation is allocation for touch in self._touches):
            self.settle()
            self._forget(lambda touch: touch.allocation is allocation)

    def has_told(self, stream: int, index: int) -> bool:
        """The host was reported not to wait for this operation: the stream's handle, and which of its operations it is."""
        return index <= self._told.get(stream, 0)

    def _forget(self, which) -> None:
        self._touches = [touch for touch in self._touches if not which(touch)]
        self._apply()

    # ------------------------------------------------------------------ pages
    @contextmanager
    def opened(self, start: int = 0, end: int = 1 << 64) -> Iterator[None]:
        """The driver itself reads and writes, from the one address to the other: that is no touch of the program's."""
        if not self._depth:
            self.settle()
            if not any(first < end and start < stop for first, stop, _ in self._runs):
                yield
                return
            self._protect([])
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            self._apply()

    def _apply(self) -> None:
        if not self._depth and (self._touches or self._runs):
            self._protect(self._wanted())

    def _protect(self, wanted: list[tuple[int, int, int]]) -> None:
        """Have these runs of pages in force and no others."""
        kept = set() if self._faulted else set(wanted).intersection(self._runs)
        for run in self._runs:
            if run not in kept:
                faulting.protect(run[0], run[1] - run[0], WRITE)
        if wanted != self._runs:
            faulting.watch("guard", [(first, end, WRITE, WHOLE) for first, end, _ in wanted])
        self._runs, self._faulted = wanted, False
        for run in wanted:
            if run not in kept:
                faulting.protect(run[0], run[1] - run[0], run[2])

    def _wanted(self) -> list[tuple[int, int, int]]:
        """Runs of pages of which every byte is under way; each is of the same operations from end to end."""
        runs = []
        for allocation in {touch.allocation: None for touch in self._touches}:
            mine = [touch for touch in self._touches if touch.allocation is allocation]
            cuts = {edge // PAGE * PAGE for touch in mine for edge in (touch.start, touch.end)}
            cuts |= {-(-edge // PAGE) * PAGE for touch in mine for edge in (touch.start, touch.end)}
            closed = _pages([touch for touch in mine if touch.writes], allocation)
            locked = _pages(mine, allocation)
            edges = sorted(cuts)
            for first, end in itertools.pairwise(edges):
                for pages, protection in ((closed, NONE), (locked, READ)):
                    if any(a <= first and end <= b for a, b in pages):
                        runs.append((first, end, protection))
                        break
        return sorted(runs[:MANY])

    # ------------------------------------------------------------------ what the host has touched
    def settle(self) -> None:
        """Report what the host has touched since the last call. Called before anything is asked of the driver."""
        if not faulting.guard_noted():
            return
        for address, written, stack in faulting.take_guarded():
            self._faulted = True
            touch = self._under_way(address, written)
            place = host.place_among(stack) if touch else None
            if place is not None:
                self._tell(touch, address, written, place)
        self._apply()

    def _under_way(self, address: int, written: bool) -> _Touch | None:
        """The first operation that the host should have waited for before this."""
        for touch in self._touches:
            if touch.start <= address < touch.end and (written or touch.writes):
                if not self.has_told(touch.op.stream.handle, touch.index):
                    return touch
        return None

    def _tell(self, touch: _Touch, address: int, written: bool, place: tuple[str, int]) -> None:
        from grader.vgpu.driver.work import name_of, note

        line = touch.place[1]
        verb, there = "writes" if written else "reads", f" (line {line})" if line else ""
        text = (
            f"the host {verb} byte {address - touch.allocation.address} of {name_of(touch.allocation)}, which "
            f"{touch.name}{there} {'writes' if touch.writes else 'reads'}, before that is over: "
            "wait for it first (synchronise the stream or an event)"
        )
        kind = "host before synchronisation" if touch.writes else "source changed"
        mine = place if place[1] else touch.place
        note(Finding("racecheck", kind, text, mine[1], mine[0], line if mine is place else 0))
        # One wait at this line would have covered all that is in the stream.
        self._told[touch.op.stream.handle] = touch.op.stream.asked


def _touches(op, work, piece) -> Iterator[_Touch]:
    """What a piece of an operation's work touches of page-locked memory, where the host does not wait for it at once."""
    from grader.vgpu.driver.memory import find

    if not getattr(piece, "asynchronous", False):
        return
    where = op.stream.title() if piece is work else f"a graph in {op.stream.title()}"
    for address, nbytes, rows, pitch, verb in piece.extents():
        allocation = find(address)
        if allocation is None or allocation.kind not in ("host", "registered"):
            continue
        if rows > 1 and pitch == nbytes:
            nbytes, rows = nbytes * rows, 1
        if rows > MANY or (rows > 1 and nbytes < PAGE):  # no page is all theirs
            continue
        place = (op.point.file, op.point.line) if op.point else host.place()
        for row in range(rows):
            start = address + row * pitch
            yield _Touch(
                op,
                op.stream.asked,
                piece,
                allocation,
                start,
                start + nbytes,
                verb == "writes",
                f"{piece.title()} in {where}",
                place,
            )


def _pages(touches: list[_Touch], allocation) -> list[tuple[int, int]]:
    """The whole pages that ranges cover together. Pinned memory has its last page to itself, registered memory has not."""
    covered: list[list[int]] = []
    for start, end in sorted((touch.start, touch.end) for touch in touches):
        if covered and start <= covered[-1][1]:
            covered[-1][1] = max(covered[-1][1], end)
        else:
            covered.append([start, end])
    last = allocation.end if allocation.kind == "host" else None
    return [
        (-(-start // PAGE) * PAGE, -(-end // PAGE) * PAGE if end == last else end // PAGE * PAGE)
        for start, end in covered
    ]


GUARD = Guard()
