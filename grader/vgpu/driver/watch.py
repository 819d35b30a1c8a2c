"""What racecheck knows of streams and of the host: it is told of every operation when it is asked for and when it runs.

The host is one more party. What it has waited for is before all that it asks for afterwards. What it does to memory
that it shares with the device is not seen; but bytes that an operation was to read or write, and that have changed since it
was asked for with no operation's doing, were changed by the host too early.

Threads of the host count as one: what one of them has waited for is before what any of them asks for.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from grader.vgpu.driver import paging
from grader.vgpu.driver.guard import GUARD
from grader.vgpu.driver.state import driver
from grader.vgpu.sanitize import host
from grader.vgpu.sanitize.findings import Finding
from grader.vgpu.sanitize.streams import NOTHING, Extents, History, Point, before, join, part

HELD = 64 << 20  # bytes of shared memory that are held to compare with; what more is queued goes unwatched
MANY = 128  # streams in a clock: time to leave out those that are gone
RANGES = 64  # that are taken one by one
HOST_FUNCTION = 3  # CUgraphNodeType


@dataclass(eq=False)
class _Held:
    """Bytes of memory that the host can touch, as they were when an operation on them was asked for."""

    work: object
    address: int
    rows: np.ndarray  # uint8, (rows, bytes of a row)
    pitch: int
    allocation: object = field(repr=False)

    @property
    def end(self) -> int:
        return self.address + self.pitch * (len(self.rows) - 1) + self.rows.shape[1]

    def now(self) -> np.ndarray:
        """The same bytes as they are."""
        view = self.allocation.view()[self.address - self.allocation.address :]
        return np.lib.stride_tricks.as_strided(view, self.rows.shape, (self.pitch, 1))

    def take(self, extents) -> None:
        """These bytes are what they are now; where that is too much to tell apart, all are."""
        near = (extents.starts < self.end) & (extents.ends > self.address)
        if not near.any():
            return
        now = self.now()
        if len(self.rows) > 1 or near.sum() > RANGES:
            self.rows[:] = now
            return
        for start, end in zip(extents.starts[near], extents.ends[near], strict=True):
            piece = slice(max(0, start - self.address), end - self.address)
            self.rows[0, piece] = now[0, piece]

    def changed(self):
        """Extents of the bytes that are not what they were."""
        different = self.now() != self.rows
        if not different.any():
            return NOTHING
        if len(self.rows) == 1:
            return Extents.words(self.address, 1, different[0])
        flat = np.zeros((len(self.rows), self.pitch), bool)
        flat[:, : self.rows.shape[1]] = different
        return Extents.words(self.address, 1, flat.ravel())


class Watch:
    """Vector clocks, what is remembered of operations that are over, and what is held of those that are not."""

    def __init__(self):
        self.host: dict[int, int] = {}  # stream -> index of its newest operation that the host knows to be over
        self.history = History()
        self._held: list[_Held] = []
        self._held_bytes = 0
        self._unwaited = False  # operations are being executed that the host does not wait for
        # Told (op, work) of each piece of work right after it has run; see flow.py.
        self.listener: Callable | None = None

    # ------------------------------------------------------------------ when it is asked for
    def asked(self, op, work) -> None:
        """Give an operation its place in the order, and hold what it will read and write of the host's."""
        stream = op.stream
        stream.asked += 1
        if not driver.options.racecheck:
            return
        clock = dict(self.host)
        for dep in itertools.chain(op.deps, work.waits_for()):
            if dep.point is not None:
                join(clock, dep.point.clock)
                join(clock, {dep.point.stream: dep.point.index})
        if len(clock) > MANY:
            clock = self._of_living(clock)
        file, line = host.place()
        op.point = Point(stream.handle, stream.asked, clock, f"{work.title()} in {stream.title()}", file, line)
        for piece in work.parts():
            self._hold(piece)

    def _of_living(self, clock: dict[int, int]) -> dict[int, int]:
        """A clock without the streams that are gone and of which nothing is remembered."""
        known = self.history.streams()
        return {stream: index for stream, index in clock.items() if stream in driver.handles or stream in known}

    def node(self, op, outer, number: int, deps: list) -> None:
        """The same for a node of the graph whose launch is `outer`; `deps` are the nodes that it waits for."""
        if outer.point is None:
            return
        p = outer.point
        clock, nodes = dict(p.clock), p.nodes
        for dep in deps:
            join(clock, dep.point.clock)
            nodes |= dep.point.nodes | 1 << dep.point.node
        for event in op.work.waits_for():
            if event.point is not None:
                join(clock, event.point.clock | {event.point.stream: event.point.index})
        name = f"{op.work.title()} in a graph in {op.stream.title()}"
        op.point = Point(p.stream, p.index, clock, name, p.file, p.line, number, nodes)

    @staticmethod
    def ran(outer, inner: list) -> None:
        """The nodes of a graph are over: what waits for a node that is a graph waits for all of its nodes."""
        if outer.point is not None:
            for op in inner:
                outer.point.nodes |= op.point.nodes | 1 << op.point.node

    def _hold(self, work) -> None:
        from grader.vgpu.driver.memory import find

        for address, nbytes, rows, pitch in work.shares():
            allocation = find(address)
            size = nbytes * rows
            if allocation is None or not allocation.shared or self._held_bytes + size > HELD:
                continue
            held = _Held(work, address, np.empty((rows, nbytes), np.uint8), pitch or nbytes, allocation)
            with paging.opened(held.address, held.end):
                held.rows[:] = held.now()
            self._held.append(held)
            self._held_bytes += size

    # ------------------------------------------------------------------ when it runs
    def run(self, op, work) -> None:
        """Run a piece of work, which is an operation or a node of a graph, and compare it with the others."""
        suspected = GUARD.suspects(op, work)
        changes = [] if op.point is None else self._release(work)
        accesses = [] if work.observed else self._compare(op, work, changes)  # first: a free ends a history
        work.run(op)
        if suspected:
            GUARD.judge(op, work, work.accesses(op))
        if op.point is None:
            return
        if work.observed:
            accesses = self._compare(op, work, changes)
        if self.listener is not None:
            self.listener(op, work)
        for allocation, access, _ in accesses if self._held else ():
            self._refresh(allocation, access)
        if work.node_type == HOST_FUNCTION:  # it may write anything, and lets the host know how far the stream is
            self._hold_no_more(self._held)
            self.waited(op)

    def _compare(self, op, work, changes: list) -> list:
        """Report what the operation's accesses race with. -> (allocation, Access, name) of each, if anybody asks."""
        if op.point is None or (not changes and not self._held and not self._concurrent(op)):
            return []
        accesses = list(work.accesses(op))
        for allocation, access, name in accesses:
            for held, extents in changes:
                if held.allocation is allocation and not GUARD.has_told(op.point.stream, op.point.index):
                    self._tell_change(op, held, extents, access, name)
            finding = self.history.add(allocation, access, name)
            if finding is not None:
                _note(finding, work)
        return accesses

    def _concurrent(self, op) -> bool:
        """Something that is remembered, queued, or still to be asked for is not ordered with this."""
        if self._unwaited or op.branching or self.history.unordered(op.point):
            return True
        for context in driver.contexts:
            for stream in context.streams:
                if stream.handle == op.point.stream or not stream.pending:
                    continue
                if any(p.point is not None and not before(op.point, p.point) for p in stream.pending):
                    return True
        return False

    def _release(self, work) -> list:
        """What is held for a piece of work is held no more: [(held, Extents that have changed)]."""
        mine = [held for held in self._held if held.work is work]
        self._hold_no_more(mine)
        live = [held for held in mine if driver.allocations.get(held.allocation.address) is held.allocation]
        return [(held, extents) for held in live if (extents := held.changed())]

    def _hold_no_more(self, gone: list) -> None:
        if gone:
            self._held_bytes -= sum(held.rows.size for held in gone)
            self._held = [held for held in self._held if held not in gone]

    def _refresh(self, allocation, access) -> None:
        """What an operation has written is no change of the host's."""
        for extents in (access.writes, access.atomics):
            if extents:
                first, end = int(extents.starts[0]), int(extents.ends[-1])
                for held in self._held:
                    if held.allocation is allocation and held.address < end and first < held.end:
                        held.take(extents)

    @staticmethod
    def _tell_change(op, held: _Held, extents, access, name: str) -> None:
        for touched, verb in ((access.reads, "reads"), (access.writes, "writes")):
            where = extents.meet(touched)
            if where is None:
                continue
            start, end = where
            text = (
                f"the host changes {part(start, end, held.allocation)} of {name}, which "
                f"{op.point.name} {verb}, before that is over: wait for it first (synchronise the stream or an event)"
            )
            kind = "source changed" if verb == "reads" else "host before synchronisation"
            _note(Finding("racecheck", kind, text, op.point.line, op.point.file), held.work)
            return

    # ------------------------------------------------------------------ waiting
    def waited(self, *ops) -> None:
        """The host knows that these are over, and all before them."""
        for op in ops:
            if op is not None and op.point is not None:
                join(self.host, op.point.clock)
                join(self.host, {op.point.stream: op.point.index})
        if len(self.host) > MANY:
            self.host = self._of_living(self.host)
        if self.history and not any(stream.pending for context in driver.contexts for stream in context.streams):
            self.history.settle(self.host)

    def knows(self, op) -> bool:
        """The host knows that this is over, or nobody keeps account of it."""
        return op.point is None or self.host.get(op.point.stream, 0) >= op.point.index

    def unwaited(self):
        """A context manager: what is executed within it, the host does not wait for."""
        return _Unwaited(self)

    def gone(self, allocation) -> None:
        """An allocation has been freed."""
        self.history.forget(allocation)
        self._hold_no_more([held for held in self._held if held.allocation is allocation])


class _Unwaited:
    def __init__(self, watch: Watch):
        self._watch = watch

    def __enter__(self):
        self._before, self._watch._unwaited = self._watch._unwaited, True

    def __exit__(self, *_):
        self._watch._unwaited = self._before


def _note(finding, work) -> None:
    from grader.vgpu.driver.work import note

    kernel = getattr(work, "kernel", None)
    finding.kernel = kernel.name if kernel is not None else ""
    note(finding)


WATCH = Watch()
