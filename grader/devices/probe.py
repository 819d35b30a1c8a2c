"""What the virtual driver can tell of a replay beyond what any driver can: findings, faults, counters."""

from collections import Counter
from dataclasses import replace
from itertools import islice

import grader.vgpu
from grader.vgpu.driver.abi import LOCK
from grader.vgpu.driver.clock import CLOCK, Span
from grader.vgpu.driver.flow import Done, Flow
from grader.vgpu.driver.memory import find
from grader.vgpu.driver.paging import TOTALS, Totals
from grader.vgpu.driver.state import driver
from grader.vgpu.jit import layout
from grader.vgpu.model.cards import timing
from grader.vgpu.sanitize import host
from grader.vgpu.timeline import Timeline


class VirtualProbe:
    """Watches a replay (see `player.Unwatched`). `start` before a run; `findings`, `fault` and `counters` after it."""

    def __init__(self, launch_s: float):
        self._options = grader.vgpu.options()
        self._options.deadline = launch_s
        self._counters: Counter = Counter()
        self._fault: dict | None = None
        self._marks: list[tuple[int, int, Totals]] = []  # spans and calls so far, what paging has done
        self._flow, self._results = Flow(), []
        grader.vgpu.on_launch(self._saw)

    def start(self, sanitize: bool, profile: bool) -> None:
        """Forget the last run; switch the sanitizers and the exact counters on or off."""
        self._options.racecheck = self._options.initcheck = sanitize
        self._options.profile = profile
        driver.findings.clear()
        self._counters.clear()
        self._fault = None
        self._marks.clear()
        self._results = []
        self._flow.stop()
        host.tell_place(None)

    def mark(self) -> None:
        """The timed part starts or ends here."""
        self._marks.append((len(CLOCK.spans), len(CLOCK.calls), replace(TOTALS)))
        if len(self._marks) > 1:
            self._flow.stop()
        elif self._options.racecheck and self._results:
            self._flow.watch()

    def at(self, place: tuple[str, int] | None) -> None:
        """The line of the submission whose operation is replayed."""
        host.tell_place(place)

    def results(self, places: list[tuple[int, int]]) -> None:
        """Where the arrays lie that somebody looks at afterwards."""
        self._results = places

    def wrote(self, address: int, nbytes: int, source: int | None = None) -> None:
        """The host itself has copied or written so many bytes. An estimate: at the rate of the driver's staging copies,
        which the host's memory bounds."""
        self._flow.host_wrote(address, nbytes, source)
        with LOCK:
            CLOCK.spend(nbytes / (timing(grader.vgpu.active()[0].key).pageable_to_device_gbs * 1e3))

    def stop(self) -> None:
        """See no more launches."""
        driver.observers.remove(self._saw)

    def name(self, address: int, label: str) -> None:
        """What findings call the memory at this address."""
        find(address).context.memory.find(address).label = label

    def findings(self) -> list[dict]:
        """As grader.evidence.Finding."""
        return [
            {"tool": f.tool, "message": f.message, "line": f.line or None, "file": _basename(f.file)}
            for f in grader.vgpu.findings()
            if hasattr(f, "tool")
        ]

    def fault(self) -> dict | None:
        """As grader.evidence.Fault; None if the run ended well or failed outside of a kernel."""
        return self._fault

    def counters(self) -> dict[str, float]:
        """Sums over the run's launches; of the timed part what the timeline shows (see `timeline_of`), and page faults.

        fault_groups, host_fault_groups: of managed memory; to_device, to_host, evicted: bytes of it that moved. Where the
        sanitizers watched, also `needed_of`.
        """
        if len(self._marks) < 2:
            return dict(self._counters)
        (spans, calls, before), (last_span, last_call, after) = self._marks
        shown = Timeline(list(islice(CLOCK.spans, spans, last_span)), list(islice(CLOCK.calls, calls, last_call)))
        paged = {name: float(n) for name, n in after.since(before).items()}
        needed = needed_of(*self._flow.needed(self._results)) if self._options.racecheck and self._results else {}
        return dict(self._counters) | timeline_of(shown) | paged | needed

    def _saw(self, kernel, work, result, span) -> None:
        if result.fault is not None:
            f = result.fault
            file = _basename(getattr(f, "file", ""))
            self._fault = {"kind": f.kind, "message": f.message, "line": f.line or None, "file": file}
        self._counters.update(counters_of(result.counters))


def timeline_of(shown: Timeline) -> dict[str, float]:
    """Figures in microseconds of the modelled clock, but for the first.

    copies_overlapped: share of the copies' time during which a kernel ran, 0 to 1; only where something was copied.
    kernels_us, copies_us: during which a kernel, or a copy, ran. idle_us: between the first and the last piece of work
    during which the device had nothing to do. faults_us: that kernels and the host waited for pages of managed memory.
    waits_us: that the host spent in calls that wait.
    """
    waits = [c for c in shown.calls if c.name.endswith("Synchronize")]
    found = {
        "kernels_us": shown.kernels,
        "copies_us": shown.copies,
        "idle_us": shown.idle,
        "faults_us": shown.faults,
        "waits_us": sum(c.end_us - c.start_us for c in waits),
    }
    return found | ({"copies_overlapped": shown.overlap} if shown.copies else {})


def needed_of(needed: list[Done], others: int) -> dict[str, float]:
    """Figures of the work that the results depend on (see `grader.vgpu.driver.flow`).

    needed_copies_us: during which such copies ran; needed_overlapped: share of it during which such a kernel ran, 0 to 1.
    needed_streams: with such work. unneeded: how many other kernels, copies and memsets there were.
    """
    shown = Timeline([Span("", d.kind, 0, d.stream, "", d.start_us, d.end_us) for d in needed])
    streams = {d.stream for d in needed if d.kind not in ("set", "prefetch")}
    return {
        "needed_copies_us": shown.copies,
        "needed_overlapped": shown.overlap,
        "needed_streams": float(len(streams)),
        "unneeded": float(others),
    }


def counters_of(counters) -> dict[str, float]:
    """The machine's counts under the names that rules use, for the whole grid.

    global_{load,store,atomic}_{requests,sectors,ideal_sectors}: a request is one warp's instruction, a sector 32 bytes.
    async_requests: those of the global load requests that are asynchronous copies.
    shared_{requests,wavefronts,ideal_wavefronts}: wavefronts over ideal ones are the ways of bank conflict.
    async_waits_leaving_N: waits of warps for all but the newest N groups of copies. async_arrivals: orders of warps that
    their copies arrive at an mbarrier. mbarrier_waits, block_barriers: looks of warps at an mbarrier's phase, and their
    arrivals at a barrier of the block.
    """
    found: Counter = Counter()
    for block, (runs, *_) in zip(counters.code.blocks, counters.runs.tolist(), strict=True):
        for op, *_ in block:
            if what := _waits(op):
                found[what] += runs
    for site, row in zip(counters.code.sites, counters.sites.tolist(), strict=False):
        requests, _, sectors, wavefronts, ideal, *_ = row
        if wavefronts:
            found.update(shared_requests=requests, shared_wavefronts=wavefronts, shared_ideal_wavefronts=ideal)
        elif sectors and site.space in (layout.SPACE_GLOBAL, layout.SPACE_GENERIC):
            what = f"global_{_KINDS.get(site.kind, 'load')}"
            found.update({f"{what}_requests": requests, f"{what}_sectors": sectors, f"{what}_ideal_sectors": ideal})
            if site.kind == layout.ASYNC_READ:
                found["async_requests"] += requests
    found.setdefault("shared_requests", 0)
    return {name: n * counters.scale for name, n in found.items()}


def _waits(op: str) -> str:
    """The counter of a kind of wait; empty for other opcodes."""
    op, _, number = op.partition(" ")
    if op in ("cp.async.wait_group", "cp.async.wait_all"):
        return f"async_waits_leaving_{number or 0}"
    if op.startswith(("cp.async.mbarrier.arrive", "cp.async.bulk.shared")):
        return "async_arrivals"
    if op.startswith(("mbarrier.test_wait", "mbarrier.try_wait")):
        return "mbarrier_waits"
    return "block_barriers" if op.startswith(("bar.sync", "barrier.sync", "barrier.cta.sync")) else ""


_KINDS = {layout.LOAD: "load", layout.STORE: "store", layout.ATOMIC: "atomic", layout.ASYNC_READ: "load"}


def _basename(path: str | None) -> str:
    return (path or "").rsplit("/", 1)[-1]
