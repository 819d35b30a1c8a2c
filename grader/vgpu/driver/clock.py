"""The modelled clock: a host clock, one timeline for each engine of a device, and the spans that were put on them.

Times are microseconds of the modelled machine, counted from the first call; nothing here measures anything.

Work starts when its stream, its dependencies, the host call that submitted it and an engine are all ready. Work is put
on the timelines when it is executed, which is later than, and in another order than, it was submitted; an engine
therefore fills gaps that an earlier reservation left. Kernels share the compute engine as long as their blocks fit the
device together.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

from grader.vgpu.model.cards import timing

# What a host call costs, us, of the order that Nsight Systems shows. A launch's cost is the card's (`launch_us`).
GRAPH_LAUNCH_US = 6.0
GRAPH_GAP_US = 0.2  # from the end of a node to the start of the next
CALL_US = 1.0  # queueing a copy or a memset
EVENT_US = 0.5
SYNC_US = 1.5
QUERY_US = 0.5
ALLOC_US = 60.0  # cuMemAlloc, cuMemFree, cuMemHostAlloc
ALLOC_ASYNC_US = 1.5
COPY_LATENCY_US = 8.0  # of a copy, before its first byte
# Between two devices, of the link's rate. With peer access over NVLink, 376 of 450 GB/s; over PCIe, 9.9 of 25, since the
# host bridge has to turn it round; without, through buffers in host memory, 37 of 53 and 22 of 25 (published bandwidth
# tests on H100 SXM and on PCIe 4.0 cards).
PEER_NVLINK, PEER_PCIE, PEER_STAGED = 0.84, 0.4, 0.78

MAX_SPANS = 200_000


@dataclass(frozen=True)
class Span:
    """One piece of work on the timeline."""

    name: str
    kind: str  # "kernel", "h2d", "d2h", "d2d", "p2p", "set", "host", "prefetch", "event"
    device: int
    stream: int  # 0: legacy default stream
    engine: str  # "compute", "h2d", "d2h", "p2p", "host"
    start_us: float
    end_us: float
    nbytes: int = 0
    graph: int | None = None  # id of the graph whose launch it was part of


class Clock:
    """The host's clock, one per process: calls of all threads advance it one after another."""

    def __init__(self):
        self.host_us = 0.0
        self.spans: deque[Span] = deque(maxlen=MAX_SPANS)
        self.calls: deque[Span] = deque(maxlen=MAX_SPANS)  # of the driver API that took time

    def spend(self, us: float) -> float:
        """The host is busy for so long; the time when it is done."""
        self.host_us += us
        return self.host_us

    def note_call(self, name: str, start_us: float) -> None:
        """A driver call that started then ends now."""
        self.calls.append(Span(name, "call", 0, 0, "api", start_us, self.host_us))

    def wait_until(self, us: float) -> None:
        """The host blocks until then, if it is not later already."""
        self.host_us = max(self.host_us, us)


CLOCK = Clock()


class Engine:
    """Something that works at a limited rate. `share`: the part of it that a piece of work takes while it runs."""

    def __init__(self, name: str):
        self.name = name
        self._busy: list[tuple[float, float, float]] = []  # (start, end, share)
        self._end = 0.0

    def reserve(self, ready: float, duration: float, share: float = 1.0) -> float:
        """The earliest start, not before `ready`, at which `share` is free for the whole duration."""
        if ready >= self._end:
            self._busy.clear()
            start = ready
        else:
            starts = sorted({ready, *(end for _, end, _ in self._busy if end > ready)})
            start = next(t for t in starts if self._peak(t, t + duration) + share <= 1.0 + 1e-9)
        self._busy.append((start, start + duration, share))
        del self._busy[:-64]  # gaps further back than this are not filled
        self._end = max(self._end, start + duration)
        return start

    def _peak(self, start: float, end: float) -> float:
        """The most that is taken at any moment within the interval."""
        overlapping = [span for span in self._busy if span[0] < end and span[1] > start]
        moments = {start, *(span[0] for span in overlapping if span[0] > start)}
        return max(
            (sum(share for s, e, share in overlapping if s <= moment < e) for moment in moments),
            default=0.0,
        )


_thread = threading.local()


def current_graph() -> int | None:
    """The graph whose launch is being executed by this thread, for the spans."""
    return getattr(_thread, "graph", None)


def set_current_graph(graph: int | None) -> None:
    """Say that spans from now on belong to this graph's launch."""
    _thread.graph = graph


def launch_us(card) -> float:
    """What launching a kernel costs the host."""
    return timing(card.key).launch_us


def empty_kernel_us(card) -> float:
    """From the start of an empty kernel to its end: a graph of such kernels takes this and GRAPH_GAP_US a node."""
    return timing(card.key).graph_node_us - GRAPH_GAP_US


def copy_us(card, kind: str, nbytes: int, pageable: bool, direct: bool = True) -> float:
    """How long a copy takes: latency + bytes / bandwidth. `direct`: between devices, with peer access enabled."""
    times = timing(card.key)
    if kind == "d2d":
        return empty_kernel_us(card) + nbytes / (times.dram_gbs / 2 * 1e3)  # every byte is read and written
    if kind == "p2p" and not direct:
        rate = times.pinned_to_device_gbs * PEER_STAGED
    elif kind == "p2p":
        rate = times.nvlink_gbs * PEER_NVLINK if times.nvlink_gbs else times.pinned_to_device_gbs * PEER_PCIE
    elif kind == "d2h":
        rate = times.pageable_to_host_gbs if pageable else times.pinned_to_host_gbs
    else:
        rate = times.pageable_to_device_gbs if pageable else times.pinned_to_device_gbs
    return COPY_LATENCY_US + nbytes / (rate * 1e3)


def set_us(card, nbytes: int) -> float:
    """How long a memset takes."""
    return empty_kernel_us(card) + nbytes / (timing(card.key).dram_gbs * 1e3)
