"""racecheck between streams: which operations of a program are ordered, which bytes each touches, which of them clash.

Every operation has a vector clock over the streams (Fidge 1988, Mattern 1989): for each stream, the newest operation that
is over before this one starts. Two operations race when both touch a byte, one of them writes it, they are not both atomic
there, and neither is before the other. Streams, events, the legacy stream's implicit order and what the host has waited
for make the clocks (driver/watch.py); nodes of one graph launch are told apart by the nodes before each.

The operations are compared as they are executed, and an execution keeps the program's order: what is compared later is
never before what was compared earlier, so a byte's last reader and writer of each stream are enough to know.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .findings import Finding

KEPT = 1024  # accesses remembered of one allocation; of more, the oldest are forgotten


@dataclass(eq=False, slots=True)
class Point:
    """Where an operation stands in the order of the program."""

    stream: int  # handle of its stream
    index: int  # 1, 2, ... in the stream
    clock: dict[int, int] = field(repr=False)  # stream -> index of its newest operation that is over before this starts
    name: str = ""  # what it is and in which stream, in words
    file: str = ""  # where the host asked for it
    line: int = 0
    node: int = -1  # of a graph launch: number of the node,
    nodes: int = 0  # and, as bits, the nodes of the launch that are before it


def before(a: Point, b: Point) -> bool:
    """`a` is over before `b` starts."""
    if a.stream != b.stream:
        return b.clock.get(a.stream, 0) >= a.index
    if a.index != b.index or a.node < 0 or b.node < 0:
        return a.index < b.index or a is b
    return a.node == b.node or bool(b.nodes >> a.node & 1)


def join(clock: dict[int, int], other: dict[int, int]) -> None:
    """What `other` knows to be over, `clock` knows from now on."""
    for stream, index in other.items():
        if clock.get(stream, 0) < index:
            clock[stream] = index


class Extents:
    """Ranges of addresses, [start, end), sorted and apart from each other."""

    __slots__ = ("ends", "starts")

    def __init__(self, starts, ends):
        self.starts = np.asarray(starts, np.int64)
        self.ends = np.asarray(ends, np.int64)

    @classmethod
    def rows(cls, address: int, nbytes: int, rows: int = 1, pitch: int = 0) -> Extents:
        """`rows` rows of `nbytes` bytes, `pitch` bytes from each to the next."""
        if rows == 1 or pitch <= nbytes:
            return cls([address], [address + pitch * (rows - 1) + nbytes])
        starts = address + pitch * np.arange(rows, dtype=np.int64)
        return cls(starts, starts + nbytes)

    @classmethod
    def words(cls, address: int, nbytes: int, touched: np.ndarray | tuple[int, int]) -> Extents:
        """The words of `nbytes` bytes from `address` on of which `touched` (bool) holds, or from the first to an end."""
        if isinstance(touched, tuple):
            first, end = touched
            return cls([address + first * nbytes], [address + end * nbytes]) if end > first else NOTHING
        edges = np.flatnonzero(np.diff(touched, prepend=False, append=False))
        return cls(address + edges[0::2] * nbytes, address + edges[1::2] * nbytes)

    def __bool__(self) -> bool:
        return bool(self.starts.size)

    def meet(self, other: Extents) -> tuple[int, int] | None:
        """The first range that both hold, None when there is none."""
        if not self or not other:
            return None
        at = np.searchsorted(other.ends, self.starts, "right")
        known = at < other.starts.size
        hit = np.zeros(self.starts.size, bool)
        hit[known] = other.starts[at[known]] < self.ends[known]
        if not hit.any():
            return None
        k = int(hit.argmax())
        return max(int(self.starts[k]), int(other.starts[at[k]])), min(int(self.ends[k]), int(other.ends[at[k]]))

    def holds(self, other: Extents) -> bool:
        """Every byte of `other` is one of these."""
        if not other:
            return True
        if not self or other.starts[0] < self.starts[0] or self.ends[-1] < other.ends[-1]:
            return False
        at = np.searchsorted(self.ends, other.starts, "right")
        inside = at < self.starts.size
        if not inside.all():
            return False
        return bool((self.starts[at] <= other.starts).all() and (other.ends <= self.ends[at]).all())


NOTHING = Extents((), ())


@dataclass(eq=False, slots=True)
class Access:
    """What an operation does with the bytes of one allocation."""

    point: Point
    reads: Extents = NOTHING
    writes: Extents = NOTHING
    atomics: Extents = NOTHING  # atomic updates, and volatile and ordered accesses
    verb: str = "writes"  # in words, where it writes

    def covers(self, other: Access) -> bool:
        """Whoever races with `other` and comes after this races with this as well."""
        if not self.writes.holds(other.writes) or not self.writes.holds(other.atomics):
            return False
        return self.writes.holds(other.reads) or self.reads.holds(other.reads)

    def clash(self, other: Access) -> tuple[tuple[int, int], str, str] | None:
        """The first bytes that both touch and one of them writes, and what this and the other do to them."""
        pairs = (
            (self.writes, other.writes, self.verb, other.verb),
            (self.reads, other.writes, "reads", other.verb),
            (self.writes, other.reads, self.verb, "reads"),
            (self.atomics, other.writes, "updates", other.verb),
            (self.writes, other.atomics, self.verb, "updates"),
            (self.atomics, other.reads, "updates", "reads"),
            (self.reads, other.atomics, "reads", "updates"),
        )
        for mine, theirs, verb, other_verb in pairs:
            where = mine.meet(theirs)
            if where is not None:
                return where, verb, other_verb
        return None


class History:
    """The accesses of every allocation that an operation still to come may race with."""

    def __init__(self):
        self._of: dict[object, list[Access]] = {}
        self._told: list[tuple[Point, Point, object]] = []

    def __bool__(self) -> bool:
        return bool(self._of)

    def streams(self) -> set[int]:
        """Handles of the streams of what is remembered."""
        return {a.point.stream for accesses in self._of.values() for a in accesses}

    def unordered(self, point: Point) -> bool:
        """Something is remembered that is not before `point`."""
        return any(not before(a.point, point) for accesses in self._of.values() for a in accesses)

    def add(self, allocation, access: Access, name: str) -> Finding | None:
        """Remember an access; the race that it is in, if it is in one that has no report yet."""
        accesses = self._of.setdefault(allocation, [])
        found = None
        for other in accesses:
            if found is None and not before(other.point, access.point):
                clash = access.clash(other)
                if clash is not None and self._new(other.point, access.point, allocation):
                    found = race(access, other, clash, allocation, name)
        kept = [a for a in accesses if not (before(a.point, access.point) and access.covers(a))]
        self._of[allocation] = [*kept[1 - KEPT :], access]
        return found

    def _new(self, first: Point, second: Point, allocation) -> bool:
        """False where an earlier report has the same cause: the same lines, the same streams at the same allocation, or
        operations that the order which it asks for would order as well."""
        for one, two, where in self._told:
            if {_place(one), _place(two)} == {_place(first), _place(second)}:
                return False
            if where is allocation and {one.stream, two.stream} == {first.stream, second.stream}:
                return False
            for a, b in ((first, second), (second, first)):
                if a.stream == one.stream and b.stream == two.stream and _no_later(a, one) and _no_later(two, b):
                    return False
        self._told.append((first, second, allocation))
        return True

    def forget(self, allocation) -> None:
        """The allocation is gone."""
        self._of.pop(allocation, None)

    def settle(self, clock: dict[int, int]) -> None:
        """Forget what is over for the host, when nothing is queued that was asked for before it was."""
        for allocation, accesses in list(self._of.items()):
            left = [a for a in accesses if clock.get(a.point.stream, 0) < a.point.index]
            if left:
                self._of[allocation] = left
            else:
                del self._of[allocation]


def _place(point: Point):
    return (point.file, point.line) if point.line else point.name


def _no_later(a: Point, b: Point) -> bool:
    return a.index < b.index or (a.index == b.index and a.node <= b.node)


def part(start: int, end: int, allocation) -> str:
    """Bytes of an allocation, [start, end), in words."""
    first, last = start - allocation.address, end - allocation.address - 1
    return f"bytes {first} to {last}" if last > first else f"byte {first}"


def race(access: Access, other: Access, clash, allocation, name: str) -> Finding:
    """A race of two operations in words."""
    (start, end), verb, other_verb = clash
    me, you = access.point, other.point
    there = f" (line {you.line})" if you.line else ""
    text = f"{me.name} {verb} {part(start, end, allocation)} of {name}, which {you.name}{there} {other_verb}"
    if me.stream == you.stream:
        text += ", and neither node of the graph waits for the other: add a dependency between them"
        kind = "unordered nodes"
    else:
        text += (
            ", and nothing orders the two: record an event in one stream after its work, and let the other wait for it"
        )
        kind = "freed in use" if "frees" in (verb, other_verb) else "unordered streams"
    return Finding("racecheck", kind, text, me.line, me.file, you.line)
