"""The pages of one allocation that the host must leave alone for now, and what of that is in force.

A page is protected only if all its bytes are under way: closed (PROT_NONE) where operations write all of them, locked
(PROT_READ) where they read or write all of them. What pages are covered by is counted, so that an operation that comes or
goes costs its own pages alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from grader.vgpu.driver import faulting
from grader.vgpu.driver.faulting import LEAF, NONE, READ, WRITE

PAGE = 4096
CELLS = 32  # a first touch opens about such a part of an allocation: a loop over it is few faults
PIECES = 64  # of a page that are put together; one that more operations share is left open


@dataclass(eq=False, slots=True)
class Touch:
    """A range of an allocation that a queued operation will read or write, or, if it is a kernel's, may."""

    op: object  # queue.Op
    index: int  # which of its stream's operations that is
    work: object  # the operation's, or that of a node of its graph
    allocation: object
    start: int
    end: int
    writes: bool
    certain: bool  # it touches all of these bytes
    name: str  # the operation in words
    place: tuple[str, int]  # where the host asked for it


class Area:
    """An allocation of "host", "registered" or "managed" memory, page by page; of managed memory `paging` does the
    protecting, leaf by leaf."""

    def __init__(self, allocation):
        self.allocation = allocation
        self.managed = allocation.kind == "managed"
        self.unit = LEAF if self.managed else PAGE
        # Pinned and managed memory have their last page to themselves, registered memory has neither first nor last.
        self.own_end = allocation.kind != "registered"
        self.first = allocation.address if self.own_end else -(-allocation.address // PAGE) * PAGE
        nbytes = allocation.end - self.first
        n = max(0, -(-nbytes // self.unit) if self.own_end else nbytes // self.unit)
        self.end = self.first + n * self.unit
        self.cell = max(PAGE, 1 << (max(nbytes // CELLS, 1) - 1).bit_length())  # bytes
        self.touches: dict[Touch, None] = {}  # in the order of the program
        self._closed, self._locked = np.zeros(n, np.int32), np.zeros(n, np.int32)  # touches that cover a page
        self._pieces: dict[int, list[Touch]] = {}  # page -> touches that cover a part of it
        self.wanted, self._force = np.full(n, WRITE, np.int8), np.full(n, WRITE, np.int8)

    # ------------------------------------------------------------------ touches
    def add(self, touch: Touch) -> None:
        """An operation is queued."""
        self.touches[touch] = None
        self._count(touch, 1)

    def remove(self, touch: Touch) -> None:
        """It is over."""
        del self.touches[touch]
        self._count(touch, -1)

    def _count(self, touch: Touch, change: int) -> None:
        start, end = touch.start - self.first, touch.end - self.first
        n = len(self.wanted)
        first, stop = max(0, start // self.unit), min(n, -(-end // self.unit))
        lo = max(0, -(-start // self.unit))
        hi = n if self.own_end and touch.end == self.allocation.end else min(n, end // self.unit)
        (self._closed if touch.writes else self._locked)[lo:hi] += change  # nothing where lo > hi
        for page in {first, stop - 1} if first < stop else ():
            if lo <= page < hi:
                continue
            pieces = self._pieces.setdefault(page, [])
            if change > 0:
                pieces.append(touch)
            else:
                pieces.remove(touch)
                if not pieces:
                    del self._pieces[page]
        part = slice(first, stop)
        self.wanted[part] = np.where(self._closed[part], NONE, np.where(self._locked[part], READ, WRITE))
        for page in self._pieces if len(self._pieces) < stop - first else range(first, stop):
            if first <= page < stop and page in self._pieces and self.wanted[page] != NONE:
                self.wanted[page] = min(self.wanted[page], self._together(page))

    def _together(self, page: int) -> int:
        """The protection of a page for what the touches that cover parts of it cover together."""
        pieces = self._pieces[page]
        start = self.first + page * self.unit
        end = min(start + self.unit, self.allocation.end)
        if len(pieces) > PIECES:
            return WRITE
        if _cover([piece for piece in pieces if piece.writes], start, end):
            return NONE
        return READ if _cover(pieces, start, end) else WRITE

    # ------------------------------------------------------------------ protection
    def guards(self, start: int, end: int) -> bool:
        """Whether a page between two addresses is protected."""
        if end <= self.first or self.end <= start:
            return False
        part = slice(max(0, start - self.first) // self.unit, -(-(min(end, self.end) - self.first) // self.unit))
        return bool((self._force[part] != WRITE).any())

    def row(self) -> tuple[int, int, int, int, int]:
        """For faulting.watch."""
        return self.first, self.end, WRITE, self.cell, faulting.GUARDED

    def apply(self, opened: bool = False) -> None:
        """Put in force what is wanted, or open everything."""
        wanted = np.full_like(self.wanted, WRITE) if opened else self.wanted
        changed = np.flatnonzero(wanted != self._force)
        for run in np.split(changed, np.flatnonzero((np.diff(changed) > 1) | (np.diff(wanted[changed]) != 0)) + 1):
            if run.size:
                protection = int(wanted[run[0]])
                try:
                    faulting.protect(self.first + int(run[0]) * PAGE, len(run) * PAGE, protection)
                except OSError:
                    if self.own_end:
                        raise  # else the program has freed what it registered: `memory` finds out
        self._force = wanted.copy()

    def was_opened(self, address: int) -> None:
        """The handler has opened the cell of this address."""
        start = (address - self.first) // self.cell * self.cell
        self._force[start // PAGE : (start + self.cell) // PAGE] = WRITE


def _cover(touches: list[Touch], start: int, end: int) -> bool:
    """Whether ranges hold all bytes from start to end."""
    for touch in sorted(touches, key=lambda touch: touch.start):
        if touch.start > start:
            return False
        start = max(start, touch.end)
    return start >= end
