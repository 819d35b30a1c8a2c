"""Managed memory: where each part of it is, what moves it, and what that costs. Also mapped host memory's price.

Managed memory moves in leaves of 64 KB. The first touch by a processor that does not have a leaf is a page fault, and
`faulting` sees it, of a kernel and of the host alike. A fault brings the leaf, and the rest of the smallest power of two
of leaves around it of which more than half is then there, up to a tree of 2 MB (Ganguly et al., "Interplay between
Hardware Prefetcher and Page Eviction Policy in CPU-GPU Unified Virtual Memory", ISCA 2019). What one fault brings is a
*fault group*: it costs a fixed time and its bytes' way over the link. Published for dense first touches: 209 us a group
and about 1.1 GB/s on V100; 2.86 ms for 8 MB on RTX 2060.

When a device is full, the trees whose last fault is longest ago go back to the host. Within a launch a leaf is looked at
once, at its first touch: what a launch brings in, evicts and touches again is not seen to come back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields

import numpy as np

from grader.vgpu.driver import faulting
from grader.vgpu.driver.clock import CLOCK, HOST_FAULTS, Span, current_graph
from grader.vgpu.driver.faulting import LEAF, NONE, READ, WRITE
from grader.vgpu.driver.guard import GUARD
from grader.vgpu.model.cards import timing

TREE = 2 << 20
_LEAVES = TREE // LEAF
HOST = 1  # bit of a leaf's `where`; device k has bit 2 << k
# Cards give the cost of a group of 128 KB, as fitted to a dense touch; in one, six groups bring a tree.
GROUP_COST = TREE / 6 / (128 << 10)


@dataclass
class Totals:
    """What paging has done so far in this process. Groups count; the rest are bytes."""

    fault_groups: int = 0  # of kernels
    host_fault_groups: int = 0
    to_device: int = 0  # on demand or prefetched
    to_host: int = 0
    evicted: int = 0  # part of to_host

    def since(self, earlier: Totals) -> dict[str, int]:
        """Differences by name."""
        return {f.name: getattr(self, f.name) - getattr(earlier, f.name) for f in fields(self)}


TOTALS = Totals()


class Pages:
    """The leaves of one managed allocation."""

    def __init__(self, allocation):
        self.allocation = allocation
        self.first = allocation.address
        self.end = -(-allocation.end // 4096) * 4096
        n = -(-allocation.nbytes // LEAF)
        self.where = np.zeros(n, np.int64)  # bits of the processors that have the leaf; 0: nobody has touched it
        self.mapped = np.zeros(n, np.int64)  # bits of the processors that reach it where it is
        self.open_for = np.full(n, WRITE)  # the protection that is in force

    def nbytes(self, leaf: int) -> int:
        """Bytes of the allocation in a leaf: the last one may be short."""
        return min(LEAF, self.allocation.nbytes - leaf * LEAF)

    def protect(self, wanted: np.ndarray) -> None:
        """Set each leaf's protection."""
        changed = np.flatnonzero(wanted != self.open_for)
        for run in np.split(changed, np.flatnonzero((np.diff(changed) > 1) | (np.diff(wanted[changed]) != 0)) + 1):
            if run.size:
                start = self.first + int(run[0]) * LEAF
                stop = min(self.first + (int(run[-1]) + 1) * LEAF, self.end)
                faulting.protect(start, stop - start, int(wanted[run[0]]))
        self.open_for = wanted

    def allowed(self, bit: int, all_seen: bool = False) -> np.ndarray:
        """What a processor may do to each leaf unnoticed; with `all_seen`, only what it reaches elsewhere."""
        has = (self.where & bit) != 0
        away = self.reached(bit)
        if all_seen:
            return np.where(away, WRITE, NONE)
        return np.where((self.where == bit) | away, WRITE, np.where(has, READ, NONE))

    def for_host(self) -> np.ndarray:
        """The same of the host, which leaves what is under way alone."""
        limit = GUARD.limit(self.allocation)
        return self.allowed(HOST) if limit is None else np.minimum(self.allowed(HOST), limit)

    def reached(self, bit: int) -> np.ndarray:
        """The leaves that a processor does not have and uses where they are. No host reaches into a device over PCIe."""
        elsewhere = (self.where != 0) & (self.where & bit == 0)
        if bit != HOST and bit in map(_bit, self.allocation.advice.get("accessed_by", ())):
            return elsewhere
        return elsewhere & (self.mapped & bit != 0)


def _bit(location: tuple[int, int]) -> int:
    return HOST if location[0] != 1 else 2 << location[1]


_live: dict[int, Pages] = {}  # by the allocation's address
_depth = 0  # of `opened`
_recent: dict[tuple[int, int, int], None] = {}  # (device bit, allocation's address, tree): the oldest first


def is_full() -> bool:
    """As many managed allocations are there as can be watched."""
    return len(_live) >= faulting.RANGES


def adopt(allocation) -> None:
    """A managed allocation was made. Nobody has touched it."""
    allocation.pages = _live[allocation.address] = Pages(allocation)
    _close()


def drop(allocation) -> None:
    """It is going: its pages are ordinary again."""
    pages = _live.pop(allocation.address, None)
    if pages is not None:
        pages.protect(np.full_like(pages.open_for, WRITE))
        for key in [key for key in _recent if key[1] == allocation.address]:
            del _recent[key]
        _watch()


def _watch(guarded: bool = True) -> None:
    """guarded: the host's touches of what is under way are told to `guard`."""
    faulting.watch(
        "managed",
        [
            (
                p.first,
                p.end,
                READ if "read_mostly" in p.allocation.advice else WRITE,
                LEAF,
                faulting.BOTH if guarded and GUARD.limit(p.allocation) is not None else faulting.NOTED,
            )
            for p in _live.values()
        ],
    )


def _notes() -> list[tuple[Pages, int, bool]]:
    """(allocation's pages, leaf, whether it was written) of what was touched first since the last call."""
    found = []
    for address, written in faulting.take():
        pages = next(p for p in _live.values() if p.first <= address < p.end)
        leaf = (address - pages.first) // LEAF
        pages.open_for[leaf] = WRITE if written or "read_mostly" not in pages.allocation.advice else READ
        found.append((pages, leaf, written))
    return found


def settle() -> None:
    """Charge the host for what it has touched since the last call. Called before anything is asked of the driver."""
    GUARD.settle()
    if not faulting.noted():
        return
    _settle()
    if not _depth:
        _close()  # touched again, it is noted again


def _settle() -> None:
    for pages, leaf, written in _notes():
        moved = _touch(pages, leaf, written, HOST)
        if moved is None:
            continue  # the first touch of all: memory of the host like any other
        TOTALS.host_fault_groups += 1
        TOTALS.to_host += moved
        device = pages.allocation.context.device
        start = CLOCK.host_us
        CLOCK.spend(_us(device.card, 1, moved, "pinned_to_host_gbs"))
        CLOCK.spans.append(
            Span("page fault", "fault", device.ordinal, 0, HOST_FAULTS, start, CLOCK.host_us, moved, current_graph())
        )


@contextmanager
def opened(start: int = 0, end: int = 1 << 64) -> Iterator[None]:
    """The driver itself reads and writes memory that it shares with the host: that is no touch of anybody's.

    start, end: addresses between which all of that memory lies which is page-locked.
    """
    with GUARD.opened(start, end), _opened():
        yield


@contextmanager
def _opened() -> Iterator[None]:
    global _depth
    if not _live:
        yield
        return
    if not _depth:
        settle()
        for pages in _live.values():
            pages.protect(np.full_like(pages.open_for, WRITE))
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if not _depth:
            _close()


def advised() -> None:
    """Advice has changed what the host may do without a fault."""
    with opened():
        pass


def _close() -> None:
    """Protect from the host what it does not have."""
    _watch()
    for pages in _live.values():
        pages.protect(pages.for_host())


def limited(allocation) -> None:
    """What is under way of managed memory has changed."""
    if not _depth and allocation.pages is not None:
        _watch()
        allocation.pages.protect(allocation.pages.for_host())


@contextmanager
def kernel(device) -> Iterator[Faults]:
    """A kernel runs, inside `opened`. What it touched is known afterwards."""
    faults = Faults(device)
    if not _live:
        yield faults
        return
    _watch(guarded=False)
    tight = sum(len(p.where) for p in _live.values()) * LEAF > _room(device)  # a leaf may go before it is touched
    for pages in _live.values():
        pages.protect(pages.allowed(2 << device.ordinal, tight))
    try:
        yield faults
    finally:
        faults.notes = _notes()
        for pages in _live.values():
            pages.protect(np.full_like(pages.open_for, WRITE))


class Faults:
    """The page faults of one kernel."""

    def __init__(self, device):
        self.device = device
        self.notes: list[tuple[Pages, int, bool]] = []
        self.groups: list[tuple[float, int]] = []  # us, bytes that came

    def charge(self, card, touched: dict[int, float]) -> tuple[float, float]:
        """Move what was touched. -> (us of faults, us that memory which stays at the host takes at least).

        touched: bytes that the kernel moves, by the allocation's address.
        """
        from grader.vgpu.driver.memory import find

        bit = 2 << self.device.ordinal
        for pages, leaf, written in self.notes:
            moved = _touch(pages, leaf, written, bit)
            if moved is not None:
                evicted = make_room(self.device) / (timing(card.key).pinned_to_host_gbs * 1e3)
                self.groups.append((_us(card, 1, moved, "pinned_to_device_gbs") + evicted, moved))
        TOTALS.fault_groups += len(self.groups)
        TOTALS.to_device += sum(moved for _, moved in self.groups)
        least = 0.0
        for address, nbytes in touched.items():
            allocation = find(address)
            if allocation is not None and allocation.kind != "device":
                managed = allocation.kind == "managed"
                away = np.mean(allocation.pages.reached(bit)) if managed else allocation.shared
                least += float(away) * float(nbytes) / (timing(card.key).pinned_to_device_gbs * 1e3)
        return sum(us for us, _ in self.groups), least

    def spans(self, kernel: Span) -> None:
        """The faults' place on the timeline: one after the other, from the start of the kernel."""
        at = kernel.start_us
        for us, moved in self.groups:
            _span("page fault", at, at + us, moved, kernel.device, kernel.stream)
            at += us


def _touch(pages: Pages, leaf: int, written: bool, bit: int) -> int | None:
    """A processor touches a leaf that it may not have. -> the bytes that a fault brings; None if it is none."""
    where, advice = pages.where, pages.allocation.advice
    here = int(where[leaf])
    if here == 0 and bit == HOST:
        where[leaf] = HOST
        return None
    if here == 0:
        return _bring(pages, leaf, bit, share=False)
    if here & bit:
        if written and here != bit:  # a copy is written: the others are no longer true
            where[leaf] = bit
            return 0
        return None
    preferred = advice.get("preferred_location")
    if preferred is not None and _bit(preferred) & here and bit != HOST:
        pages.mapped[leaf] |= bit  # a fault all the same, but the data stays
        return 0
    return _bring(pages, leaf, bit, share="read_mostly" in advice and not written)


def _bring(pages: Pages, leaf: int, bit: int, share: bool) -> int:
    """Bring a leaf and what comes along; the bytes that move."""
    where = pages.where
    first, stop = leaf, leaf + 1
    size = 2
    here = (where & bit) != 0
    here[leaf] = True
    while size <= _LEAVES:
        start = leaf // size * size
        end = min(start + size, len(where))
        if 2 * np.count_nonzero(here[start:end]) > size:
            first, stop = start, end
            here[start:end] = True
        size *= 2
    return move(pages, first, stop, bit, share)


def move(pages: Pages, first: int, stop: int, bit: int, share: bool = False) -> int:
    """Give leaves [first, stop) to a processor; the bytes that move. `share`: the others keep theirs."""
    where = pages.where
    moved = sum(pages.nbytes(k) for k in range(first, stop) if where[k] and not where[k] & bit)
    if share:
        where[first:stop] |= bit
    else:
        where[first:stop] = bit
        pages.mapped[first:stop] = 0
    if bit != HOST:
        for tree in range(first // _LEAVES, (stop - 1) // _LEAVES + 1):
            key = (bit, pages.first, tree)
            _recent.pop(key, None)
            _recent[key] = None
    return moved


def _room(device) -> int:
    """Bytes of the device that managed memory may take."""
    return device.card.memory_bytes - device.used_bytes


def make_room(device) -> int:
    """Send the trees whose last fault is longest ago back to the host until the rest fits; the bytes that go."""
    bit, gone = 2 << device.ordinal, 0
    room = _room(device)
    held = sum(int(np.count_nonzero(p.where & bit)) * LEAF for p in _live.values())
    for key in [key for key in _recent if key[0] == bit][:-1]:  # the newest stays
        if held <= room:
            break
        del _recent[key]
        pages, first = _live[key[1]], key[2] * _LEAVES
        for leaf in range(first, min(first + _LEAVES, len(pages.where))):
            if pages.where[leaf] & bit:
                held -= LEAF
                if pages.where[leaf] == bit:
                    gone += pages.nbytes(leaf)
                    pages.where[leaf] = HOST
                else:
                    pages.where[leaf] &= ~bit
    TOTALS.evicted += gone
    TOTALS.to_host += gone
    return gone


def populate(address: int, nbytes: int, device) -> None:
    """A copy or a memset wrote here: what nobody had is now on the device."""
    from grader.vgpu.driver.memory import find

    allocation = find(address)
    if allocation is not None and allocation.kind == "managed":
        part = slice((address - allocation.address) // LEAF, -(-(address + nbytes - allocation.address) // LEAF))
        where = allocation.pages.where[part]
        where[where == 0] = 2 << device.ordinal


def prefetch(allocation, address: int, nbytes: int, location: tuple[int, int]) -> int:
    """Move a range, leaves that it touches being moved whole; the bytes that move."""
    from grader.vgpu.driver.state import driver

    pages, bit = allocation.pages, _bit(location)
    first = (address - allocation.address) // LEAF
    stop = -(-(address + nbytes - allocation.address) // LEAF)
    moved = move(pages, first, stop, bit, share="read_mostly" in allocation.advice)
    if bit == HOST:
        TOTALS.to_host += moved
    else:
        TOTALS.to_device += moved
        make_room(driver.devices[location[1]])
    return moved


def discard(allocation, address: int, nbytes: int) -> None:
    """Nobody has these bytes any more."""
    first = -(-(address - allocation.address) // LEAF)
    allocation.pages.where[first : (address + nbytes - allocation.address) // LEAF] = 0


def _us(card, groups: float, nbytes: float, link: str) -> float:
    return groups * GROUP_COST * timing(card.key).fault_group_us + nbytes / (getattr(timing(card.key), link) * 1e3)


def fault_us(card, nbytes: int) -> float:
    """How long it takes to bring so many bytes of managed memory in on demand, touched from the first to the last."""
    groups = sum(_groups(min(TREE, nbytes - start)) for start in range(0, nbytes, TREE))
    return _us(card, groups, nbytes, "pinned_to_device_gbs")


def _groups(nbytes: int) -> int:
    """Fault groups of a dense touch of up to a tree: leaves 0, 1, 2, 4, 8, 16 fault."""
    leaves = -(-nbytes // LEAF)
    return sum(1 for k in (0, 1, 2, 4, 8, 16) if k < leaves)


def _span(name: str, start: float, end: float, nbytes: int, device: int, stream: int = 0) -> None:
    CLOCK.spans.append(Span(name, "fault", device, stream, "faults", start, end, nbytes, current_graph()))
