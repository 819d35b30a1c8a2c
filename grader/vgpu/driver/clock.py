"""The modelled clock: a host clock, one timeline for each engine of a device, and the spans that were put on them.

Times are microseconds of the modelled machine, counted from the first call; nothing here measures anything.

Work starts when its stream, its dependencies, the host call that submitted it and an engine are all ready. Work is put
on the timelines when it is executed, which is later than, and in another order than, it was submitted; an engine
therefore fills gaps that an earlier reservation left.

An engine does one thing at a time: a copy engine, the host. What several things use at once is a resource: the SMs and
the device memory of kernels, the links of copies. Work goes on with what those that were put there before have left of
it: a kernel that finds half of the SMs taken runs at half its speed until they are free; of two copies into one device
the second gets the link when the first is over, which hardware would divide between them. So work of a stream with a
higher priority is executed first (`queue`), and the rest goes on around it, as blocks of the one take the places that
blocks of the other leave.
"""

from __future__ import annotations

import itertools
import threading
from bisect import bisect_right, insort
from collections import deque
from dataclasses import dataclass
from operator import itemgetter

from grader.vgpu.model.cards import timing

# What a host call costs, us, of the order that Nsight Systems shows. A launch's cost is the card's (`launch_us`).
GRAPH_LAUNCH_US = 6.0
GRAPH_GAP_US = 0.2  # from the end of a node to the start of the next
# Making a graph, and for each of its nodes. Of chains of kernels, CUDA 12.6: 16 us for 10 nodes, 127 for 100, 1526 for 1025;
# the first launch 4, 15 and 96 us, later ones 2 to 3, whatever the length
# (https://developer.nvidia.com/blog/constant-time-launch-for-straight-line-graphs-and-other-performance-enhancements/).
# An earlier driver took 400 us for the capture and the instantiation of 20 (https://developer.nvidia.com/blog/cuda-graphs/).
INSTANTIATE_US, INSTANTIATE_NODE_US = 4.0, 1.3
UPLOAD_NODE_US = 0.1  # once, in cuGraphUpload or in the first launch after a change
# Estimates: a node is checked and copied, which is half of what launching a kernel is; an update does no more than that.
CAPTURE_NODE_US = 1.0  # a call that a stream captures, or that adds a node
UPDATE_NODE_US = 0.25
CALL_US = 1.0  # queueing a copy or a memset
EVENT_US = 0.5
SYNC_US = 1.5
QUERY_US = 0.5
ALLOC_US = 60.0  # cuMemAlloc, cuMemFree, cuMemHostAlloc
ALLOC_ASYNC_US = 1.5
COPY_LATENCY_US = 8.0  # of a copy, before its first byte
# Between two devices, by the route, of the rate of NVLink or of PCIe (pinned memory, to the device). p2pBandwidthLatencyTest
# gave 376 of 450 GB/s and, through buffers in host memory, 37 of 53 on H100 SXM (https://github.com/NVIDIA/nccl/issues/1264);
# 9.9 of 25 through the host bridge and 22 of 25 through host memory on PCIe 4.0 (https://github.com/NVIDIA/nccl/issues/814);
# 54 of 55 through a PCIe 5.0 switch (https://github.com/voipmonitor/rtx6kpro/blob/master/hardware/pcie-bandwidth.md).
PEER = {"nvlink": 0.84, "switch": 0.98, "bridge": 0.4, "staged": 0.78}

HOST_FAULTS = "host faults"  # the engine of the host's own page faults
MAX_SPANS = 200_000


@dataclass(frozen=True)
class Span:
    """One piece of work on the timeline."""

    name: str
    kind: str  # "kernel", "h2d", "d2h", "d2d", "p2p", "set", "prefetch", "fault", "host", "event", "call"; see timeline
    device: int
    stream: int  # 0: legacy default stream
    engine: str  # "compute", "h2d", "d2h", "p2p", "host"; "faults", "host faults"; "api" of calls
    start_us: float
    end_us: float
    nbytes: int = 0
    graph: int | None = None  # id of the graph whose launch it was part of
    launch: int | None = None  # which of this process's graph launches that was


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


KEPT = 128  # pieces of work on an engine, or stretches of a resource's use, that are looked at; older ones are history
_END = itemgetter(1)
SLOWEST = 0.02  # of full speed; what has less of a resource waits for more


class Engine:
    """Something that does one piece of work after the other."""

    def __init__(self):
        self._busy: list[tuple[float, float]] = []  # (start, end), by their end
        self._end = self._history = 0.0

    def start(self, ready: float, duration: float) -> float:
        """The earliest start, not before `ready`, from which it is free for so long."""
        if ready >= self._end:
            return ready
        at = max(ready, self._history)
        for start, end in sorted(self._busy):
            if start < at + duration and end > at:
                at = end
        return at

    def book(self, start: float, end: float) -> None:
        """It works from start to end."""
        insort(self._busy, (start, end), key=_END)
        if len(self._busy) > KEPT:
            self._history = max(self._history, self._busy.pop(0)[1])
        self._end = max(self._end, end)


class Resource:
    """Something of which several pieces of work can have a part at once: 1.0 is all of it."""

    def __init__(self):
        self._use: list[tuple[float, float, float]] = []  # (start, end, part), by their end
        self.end = self.history = 0.0

    def take(self, start: float, end: float, part: float) -> None:
        """A part is used from start to end."""
        insort(self._use, (start, end, part), key=_END)
        if len(self._use) > KEPT:
            self.history = max(self.history, self._use.pop(0)[1])
        self.end = max(self.end, end)

    def since(self, when: float) -> list[tuple[float, float, float]]:
        """(start, end, part) of the use that is not over by then."""
        return self._use[bisect_right(self._use, when, key=_END) :]


def share(ready: float, duration: float, needs: list[tuple[Resource, float]]) -> tuple[float, float]:
    """Use resources, part of each, for as long as the work takes with what is left of them. -> (start, end).

    duration: us at full speed; a part is above 0, at most 1.
    """
    if all(ready >= resource.end for resource, _ in needs):
        for resource, part in needs:
            resource.take(ready, ready + duration, part)
        return ready, ready + duration
    now = max(ready, *(resource.history for resource, _ in needs))
    others = [(part, resource.since(now)) for resource, part in needs]
    moments = sorted({t for _, uses in others for use in uses for t in use[:2] if t > now})
    start, left = None, duration
    for until in [*moments, float("inf")]:
        speed = 1.0
        for part, uses in others:
            taken = 0.0
            for a, b, other in uses:
                if a < until and b > now:
                    taken += other
            speed = min(speed, (1.0 - taken) / part)
        if speed >= SLOWEST:
            end = min(until, now + left / speed)
            start = now if start is None else start
            for resource, part in needs:
                resource.take(now, end, part * speed)
            left -= (end - now) * speed
            if left <= 1e-9 * duration or end < until:
                return start, end
        now = until
    raise AssertionError("a resource that is never free")


_thread = threading.local()
_launches = itertools.count(1)


def current_graph() -> int | None:
    """The graph whose launch is being executed by this thread, for the spans."""
    return getattr(_thread, "graph", None)


def current_launch() -> int | None:
    """Which launch of a graph that is, counted over the process."""
    return getattr(_thread, "launch", None)


def set_current_graph(graph: int | None) -> None:
    """Say that spans from now on belong to a new launch of this graph; None: to no graph."""
    _thread.graph = graph
    _thread.launch = None if graph is None else next(_launches)


def instantiate_us(nodes: int) -> float:
    """What instantiating a graph costs the host."""
    return INSTANTIATE_US + INSTANTIATE_NODE_US * nodes


def launch_us(card) -> float:
    """What launching a kernel costs the host."""
    return timing(card.key).launch_us


def empty_kernel_us(card) -> float:
    """From the start of an empty kernel to its end: a graph of such kernels takes this and GRAPH_GAP_US a node."""
    return timing(card.key).graph_node_us - GRAPH_GAP_US


def rate_gbs(card, kind: str, pageable: bool, route: str = "staged") -> float:
    """The rate of a copy, 10^9 bytes/s. `route`: of a copy between devices, one of PEER."""
    times = timing(card.key)
    if kind == "d2d":
        return times.dram_gbs / 2  # every byte is read and written
    if kind == "p2p":
        return PEER[route] * (times.nvlink_gbs if route == "nvlink" else times.pinned_to_device_gbs)
    if kind == "d2h":
        return times.pageable_to_host_gbs if pageable else times.pinned_to_host_gbs
    return times.pageable_to_device_gbs if pageable else times.pinned_to_device_gbs


def copy_us(card, kind: str, nbytes: int, pageable: bool, route: str = "staged") -> float:
    """How long a copy takes that has its link for itself: latency + bytes / bandwidth."""
    latency = empty_kernel_us(card) if kind == "d2d" else COPY_LATENCY_US
    return latency + nbytes / (rate_gbs(card, kind, pageable, route) * 1e3)


def set_us(card, nbytes: int) -> float:
    """How long a memset takes."""
    return empty_kernel_us(card) + nbytes / (timing(card.key).dram_gbs * 1e3)
