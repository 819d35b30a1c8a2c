"""Which work the results depend on: a slice of a run (Weiser 1981), backwards from bytes to whatever wrote them.

A piece of work is needed when it writes a byte that is wanted; then all that it reads is wanted as well, and what it has
surely written is wanted of nobody earlier. Copies and memsets say what they touch; of a kernel the shadow memory of
racecheck knows every word, so this needs racecheck. A prefetch writes nothing: it is needed when needed work touches its
bytes afterwards.

What it cannot tell: what a kernel does with what it reads. One that reads a result and writes it back, or computes the
same bytes once more out of what is there, is needed. Of allocations that racecheck keeps no shadow of (16 MiB and more, and
those of other devices), a kernel may have read and written every byte, and of the heap of kernels none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from grader.vgpu.driver.state import driver
from grader.vgpu.driver.watch import WATCH
from grader.vgpu.sanitize.streams import NOTHING, Extents

_DATA = {"kernel", "h2d", "d2h", "d2d", "h2h", "p2p", "set", "prefetch"}


@dataclass(frozen=True)
class Done:
    """A piece of work that has run."""

    kind: str  # as of clock.Span; "host": the host's own code
    stream: int  # its number
    start_us: float
    end_us: float
    reads: Extents  # bytes that its writes may depend on
    writes: Extents  # bytes that hold something else than before, whatever they held
    changes: Extents = NOTHING  # bytes that depend on what they held before as well, or that it may leave as they are


class Flow:
    """What has run since `watch`, in that order, and what of it certain bytes depend on."""

    def __init__(self):
        self._done: list[Done] = []

    def watch(self) -> None:
        """Begin anew. Whatever runs from here on is looked at, as long as racecheck is on."""
        self._done = []
        WATCH.listener = self._saw

    def stop(self) -> None:
        """Look no longer."""
        WATCH.listener = None

    def host_wrote(self, address: int, nbytes: int, source: int | None = None) -> None:
        """The host's own code wrote these bytes; source: it has copied them from there."""
        reads = NOTHING if source is None else Extents.rows(source, nbytes)
        # Nothing orders it with what is queued, so it ends nobody's claim.
        self._done.append(Done("host", 0, 0.0, 0.0, reads, NOTHING, Extents.rows(address, nbytes)))

    def _saw(self, op, work) -> None:
        if work.kind not in _DATA:
            return
        if work.observed:
            of = [(a.reads, a.writes, a.atomics) for _, a, _ in work.accesses(op)]
            reads, writes, changes = (union(*parts) for parts in zip(*of, strict=True)) if of else (NOTHING,) * 3
            changes = union(changes, unknown(op.stream.context))
        else:
            reads, writes, changes = NOTHING, NOTHING, NOTHING
            if hasattr(work, "src"):
                reads = Extents.rows(work.src, work.nbytes, work.rows, work.src_pitch)
                writes = Extents.rows(work.dst, work.nbytes, work.rows, work.dst_pitch)
            elif hasattr(work, "dst"):
                writes = Extents.rows(work.dst, work.element * work.count, work.rows, work.pitch)
            else:
                reads = Extents.rows(work.address, work.nbytes)
        self._done.append(Done(work.kind, op.stream.number, op.start_us, op.end_us, reads, writes, changes))

    def needed(self, results: Iterable[tuple[int, int]]) -> tuple[list[Done], int]:
        """(what the bytes at these (address, nbytes) depend on, how many other pieces of the device's work there are)."""
        wanted = union(*(Extents.rows(*place) for place in results))
        used, found = NOTHING, []
        for done in reversed(self._done):
            if done.kind == "prefetch":
                needed = used.meet(done.reads)
            else:
                needed = done.writes.meet(wanted) or done.changes.meet(wanted)
            if not needed:
                continue
            found.append(done)
            if done.kind != "prefetch":
                wanted = union(minus(wanted, done.writes), done.reads, done.changes)
                used = union(used, done.reads, done.writes, done.changes)
        own = [done for done in found if done.kind != "host"]
        return own[::-1], sum(done.kind != "host" for done in self._done) - len(own)


def unknown(context) -> Extents:
    """Allocations of which nobody knows what a kernel in this context did to them: large ones, and other devices'."""
    out = [a for a in context.memory.allocations if a.race is None and a.kind not in ("heap", "constant")]
    known = {a.address for a in context.memory.allocations}
    for other in driver.contexts:
        out += [a for a in other.memory.allocations if a.address not in known and a.kind not in ("heap", "constant")]
    return union(*(Extents.rows(a.address, a.nbytes) for a in out))


def union(*parts: Extents) -> Extents:
    """Every byte that one of them holds."""
    parts = tuple(part for part in parts if part)
    if len(parts) < 2:
        return parts[0] if parts else NOTHING
    starts, ends = (np.concatenate([getattr(part, side) for part in parts]) for side in ("starts", "ends"))
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    first = np.concatenate([[True], starts[1:] > ends[:-1]])
    return Extents(starts[first], ends[np.concatenate([first[1:], [True]])])


def minus(one: Extents, other: Extents) -> Extents:
    """Every byte of `one` that `other` does not hold."""
    if one.meet(other) is None:
        return one
    bounds = np.unique(np.concatenate([one.starts, one.ends, other.starts, other.ends]))
    inside = _holds(one, bounds) & ~_holds(other, bounds)  # from each bound to the next; nobody holds the last
    edges = np.flatnonzero(np.diff(inside, prepend=False, append=False))
    return Extents(bounds[edges[0::2]], bounds[edges[1::2]])


def _holds(extents: Extents, points: np.ndarray) -> np.ndarray:
    """Which of the bytes at these addresses are among the extents."""
    return np.searchsorted(extents.starts, points, "right") > np.searchsorted(extents.ends, points, "right")
