"""Run a kernel: slots for resident blocks, one or more worker threads, findings and counters at the end."""

import functools
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from ..jit import layout as L
from ..jit import state
from ..jit.raw import peek64, poke32, poke64, raw_view
from ..sanitize.findings import Fault, Finding, make_fault, make_findings
from . import copies, count, schedule
from .module import STRONG_PARTS, Code, Kernel, elements
from .printing import format_prints

MAX_RESIDENT = 64  # blocks that can be under way at once when they wait for each other
# Seconds here are of the worker's processor time: a process that does not get to run is not stuck.
STALL_SECONDS = 3.0  # no store, barrier or end of a warp for so long while all wait in loops: they will wait for ever
BARRIER_SECONDS = 10.0  # no store and no end of a block for so long, only barriers: the loop has no end
WORKERS = min(2, len(os.sched_getaffinity(0)))
PARALLEL_THREADS = 1 << 15  # CUDA threads from which a second worker pays
TRACE_WORDS = 1 << 11  # of a warp's trace; a longer one breaks off


@functools.cache
def _pool(pid: int) -> ThreadPoolExecutor:
    """Worker threads of this process: a forked child starts its own."""
    return ThreadPoolExecutor(WORKERS, thread_name_prefix="virtual-gpu")


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """What is watched during a launch. Out-of-bounds and misaligned accesses always are."""

    racecheck: bool = True
    initcheck: bool = True
    profile: bool = False  # count every block; else only a few, spread over the grid
    deadline: float | None = None  # seconds of processor time that a worker may take; None for no limit
    cooperative: bool = False
    trace: bool = True  # count and trace a few blocks for the clock, which else cannot say how long the launch takes
    samples_only: bool = False  # run the few blocks that the clock looks at, and no others: results are incomplete
    sms: int = 108
    workers: int | None = None  # threads; None: two where blocks are independent and nothing watches


@dataclass(slots=True)
class LaunchResult:
    """What a launch did."""

    fault: Fault | None
    findings: list[Finding]
    counters: "Counters"
    printed: bytes = b""


@dataclass(slots=True)
class Counters:
    """Exact counts over `counted_blocks` of `blocks` blocks."""

    blocks: int
    counted_blocks: int
    runs: np.ndarray  # per block of code: times a warp ran it, lanes that did, times its branch split the warp
    code: Code = field(repr=False)
    sites: np.ndarray = field(repr=False)  # per memory site: count.COUNTER_BYTES // 8 words
    trace: "Trace" = field(repr=False)
    work_mean: float = 1.0  # backward branches and calls of a block's warps: over all blocks,
    work_max: float = 1.0  # of the busiest one,
    work_sampled: float = 1.0  # over the traced ones

    @property
    def scale(self) -> float:
        """Factor from what was counted to the whole grid."""
        return self.blocks / self.counted_blocks if self.counted_blocks else 0.0

    @property
    def instructions(self) -> int:
        """Warp instructions, scaled to the grid."""
        per_block = np.array([len(b) for b in self.code.blocks], np.int64)
        return round(float((self.runs[:, 0] * per_block).sum()) * self.scale)


@dataclass(slots=True)
class Trace:
    """What the warps of a few blocks did, in machine/count.py's words, and the allocations that there were."""

    blocks: list[int]  # linear indexes
    words: np.ndarray  # of all warps of the first block, then of the second, ...
    starts: np.ndarray  # (block, warp): where a warp's words start; one more at the end
    allocations: np.ndarray  # rows (first address, end, number in order of creation), by address


def sample(grid) -> list[int]:
    """Blocks that stand for the grid: all of a small one; else four inside it, no two in a row or column."""
    gx, gy, gz = grid
    if gx * gy * gz <= schedule.SAMPLES:
        return list(range(gx * gy * gz))
    picks = {}
    for x, y, z in ((1, 3, 5), (5, 1, 3), (3, 7, 1), (7, 5, 7)):
        picks[gx * x // 8 + gx * (gy * y // 8 + gy * (gz * z // 8))] = None
    return sorted(picks)


class _Slot:
    """Memory of one resident block: its state, its warps', shared and local memory."""

    def __init__(
        self, code: Code, kernel: Kernel, block, shared: int, grid: int, symbols: int, params: int, caches: int, tables
    ):
        bx, by, bz = block
        nwarps = (bx * by * bz + 31) // 32
        stride = (code.frame_bytes + 63) // 64 * 64
        local = kernel.local_bytes * 32
        pending = copies.ASYNC_BYTES if code.uses_async else 0
        shadow = ((shared >> code.grain) + 2) * 8
        partial = 8 * 32 * 32 * nwarps if code.uses_partial else 0
        sizes = [
            copies.BLOCK_TOTAL,
            stride * nwarps,
            shared + 16,
            local * nwarps,
            pending * nwarps,
            shadow,
            shadow,
            partial,
            local * nwarps,
        ]
        self.memory = np.zeros(sum((s + 63) // 64 * 64 for s in sizes) + 64, np.uint8)
        at = (self.memory.ctypes.data + 63) // 64 * 64
        places = []
        for size in sizes:
            places.append(at)
            at += (size + 63) // 64 * 64
        self.address, warps, shared_at, local_at, async_at, shadow_w, shadow_r, partial_at, marks_at = places
        put = poke64
        put(self.address + state.B_NWARPS, nwarps)
        put(self.address + state.B_WARPS, warps)
        put(self.address + state.B_WARP_STRIDE, stride)
        put(self.address + state.B_SHADOW_W, shadow_w)
        put(self.address + state.B_SHADOW_R0, shadow_r)
        put(self.address + state.B_PARTIAL, partial_at if partial else 0)
        counts, sites = tables
        for v in range(nwarps):
            w = warps + v * stride
            for k, n in enumerate(block):
                poke32(w + L.NTID + 4 * k, n)
            poke32(w + L.SHARED_BYTES, shared)
            poke32(w + L.LOCAL_BYTES, kernel.local_bytes)
            put(w + L.PARAMS, params)
            put(w + L.SHARED, shared_at)
            put(w + L.LOCAL, local_at + v * local)
            put(w + L.LOCAL_SHADOW, marks_at + v * local)
            put(w + L.SYMBOLS, symbols)
            put(w + L.CACHE, caches)
            put(w + L.GRID, grid)
            put(w + L.COUNTS, counts)
            put(w + L.SITES, sites)
            put(w + L.ASYNC, async_at + v * pending if pending else 0)
            put(w + L.STATE, self.address)
        self.shape = None  # of the grid that the warps were last told
        schedule.prepare_slot(self.address, nwarps, bx, by)

    def set_grid(self, code, block, grid_dim, dynamic):
        """Write what a launch says into the warps' states."""
        if self.shape == (tuple(grid_dim), dynamic):
            return
        self.shape = (tuple(grid_dim), dynamic)
        bx, by, bz = block
        stride = (code.frame_bytes + 63) // 64 * 64
        warps = peek64(self.address + state.B_WARPS)
        for v in range((bx * by * bz + 31) // 32):
            w = warps + v * stride
            for k, n in enumerate(grid_dim):
                poke32(w + L.NCTAID + 4 * k, n)
            poke32(w + L.DYNAMIC_BYTES, dynamic)


class _Worker:
    """One thread's view of a kernel: grid state, slots, caches, counters. Kept with the kernel for its next launch."""

    def __init__(self, kernel: Kernel, code: Code, block, shared: int):
        self.kernel, self.code, self.block, self.shared = kernel, code, block, shared
        self.grid = np.zeros(state.GRID_BYTES // 8, np.int64)
        self.findings = np.zeros((state.MAX_FINDINGS, state.FINDING_WORDS), np.int64)
        self.prints = None
        self.params = np.zeros(max(kernel.param_bytes, 8) + 16, np.uint8)
        self.symbols = np.array([kernel.module.symbols[s][0] for s in code.symbols] or [0], np.int64)
        self.cache = np.zeros((len(code.sites) or 1, state.CACHE_WORDS), np.int64)
        self.counts = np.zeros((len(code.blocks), count.COUNTS), np.int64)
        self.sites = np.zeros((len(code.sites) or 1, count.SITE_BYTES // 8), np.int64)
        self.site_table = np.array(
            [
                (
                    s.nbytes,
                    site_word(s),
                    s.kind,
                    s.block,
                )
                for s in code.sites
            ]
            or [(0, 0, 0, 0)],
            np.int64,
        )
        self.schedule = np.zeros(schedule.S_WORDS, np.int64)
        self.scratch = np.zeros(count.SCRATCH_WORDS, np.int64)
        nwarps = (block[0] * block[1] * block[2] + 31) // 32
        self.trace = np.zeros((schedule.SAMPLES, nwarps, TRACE_WORDS), np.int64)
        self.slots: list[_Slot] = []
        self.slot_addresses = np.zeros(0, np.int64)
        self.active = np.zeros(0, np.int64)
        g = self.grid
        g[state.G_FINDINGS // 8] = self.findings.ctypes.data
        g[state.G_SITES // 8] = self.site_table.ctypes.data
        g[state.G_SHARED_SHIFT // 8] = code.grain
        g[state.G_GLOBAL_SHIFT // 8] = code.global_grain
        g[state.G_QUIET // 8] = code.quiet.ctypes.data
        g[state.G_KERNEL // 8] = code.address
        g[state.G_SCRATCH // 8] = self.scratch.ctypes.data
        g[state.G_CLOCK // 8] = 1

    def reserve(self, n: int):
        """Have at least n slots."""
        while len(self.slots) < n:
            self.slots.append(
                _Slot(
                    self.code, self.kernel, self.block, self.shared, self.grid.ctypes.data, self.symbols.ctypes.data,
                    self.params.ctypes.data, self.cache.ctypes.data, (self.counts.ctypes.data, self.sites.ctypes.data),
                )
            )  # fmt: skip
        self.slot_addresses = np.array([s.address for s in self.slots], np.int64)
        self.active = np.zeros(len(self.slots), np.int64)

    def prepare(self, args: bytes, table: np.ndarray, nallocs: int, acquired):
        g = self.grid
        self.params[: len(args)] = np.frombuffer(args, np.uint8)
        self.cache[:] = 0
        self.counts[:] = 0
        self.sites[:, : count.P_LANES // 8 + 1] = 0  # the counters, and whether there is a pattern
        self.trace[:, :, -1] = 0
        g[state.G_ALLOCS // 8] = table.ctypes.data
        g[state.G_NALLOCS // 8] = nallocs
        g[state.G_NFINDINGS // 8] = 0
        g[state.G_NPRINT // 8] = 0
        g[state.G_PRINT_LOST // 8] = 0
        g[state.G_PROGRESS // 8] = 0
        g[state.G_LAUNCH // 8] = g[state.G_GRID_BARRIER // 8] = g[state.G_CLOCK // 8]
        g[state.G_ACQUIRED // 8] = acquired.ctypes.data if acquired is not None else 0
        if self.kernel.prints and self.prints is None:
            self.prints = np.zeros(state.MAX_PRINTS * state.PRINT_BYTES, np.uint8)
            g[state.G_PRINT // 8] = self.prints.ctypes.data


def site_word(site) -> int:
    """What a site's row says of it besides its bytes and kind."""
    n = elements(site.op)
    live = site.live & (1 << n) - 1
    return site.space | observe_strong(site) << 8 | n << state.ELEMENTS_SHIFT | live << state.LIVE_SHIFT


def observe_strong(site) -> int:
    """1 for volatile, relaxed, acquire and release accesses: they synchronise, and do not race with each other; + 2 for a release."""
    parts = set(site.op.split("."))
    return int(site.kind != L.ATOMIC and bool(STRONG_PARTS & parts)) + 2 * bool({"release", "acq_rel"} & parts)


def check_shape(kernel: Kernel, grid, block, args, shared):
    if len(grid) != 3 or len(block) != 3 or min(*grid, *block) < 1:
        raise ValueError(f"grid {tuple(grid)} and block {tuple(block)} need three positive sizes each")
    threads = block[0] * block[1] * block[2]
    if threads > min(1024, kernel.max_threads):
        raise ValueError(f"{threads} threads a block; the limit here is {min(1024, kernel.max_threads)}")
    if len(args) < kernel.param_bytes:
        raise ValueError(f"{len(args)} bytes of arguments, {kernel.param_bytes} needed")
    if shared < 0:
        raise ValueError("dynamic shared memory cannot be negative")


def launch(
    kernel: Kernel, grid, block, args: bytes, shared: int = 0, options: LaunchOptions | None = None
) -> LaunchResult:
    """Run `kernel` over `grid` blocks of `block` threads, (x, y, z) each, to its end.

    args is the parameter block (kernel.param_bytes bytes), shared the dynamic shared memory in bytes. Raises ModuleError
    when the kernel cannot be compiled, ValueError for a shape that no device takes.
    """
    options = options or LaunchOptions()
    check_shape(kernel, grid, block, args, shared)
    code = kernel.code()
    memory = kernel.module.memory
    nblocks = grid[0] * grid[1] * grid[2]
    total_shared = kernel.dynamic_at + shared if shared else kernel.shared_bytes
    flags = (L.OBSERVE_RACE if options.racecheck else 0) | (L.OBSERVE_INIT if options.initcheck else 0)
    watched = flags != 0
    nworkers = options.workers or (WORKERS if not watched and not code.uses_atomics and not options.profile else 1)
    if (
        code.uses_grid
        or code.uses_atomics
        or kernel.prints  # what is printed comes in the blocks' order
        or nblocks < 8
        or nblocks * block[0] * block[1] * block[2] < PARALLEL_THREADS
    ):
        nworkers = 1
    if code.uses_grid and not options.cooperative:
        raise ValueError("a grid-wide barrier needs a cooperative launch")
    table = memory.table(options.racecheck, code.global_grain)
    acquired = np.zeros((nblocks, 2), np.int64) if options.racecheck else None
    workers = _workers(kernel, code, tuple(block), total_shared, nworkers)
    resident = min(nblocks, MAX_RESIDENT)
    if options.cooperative and code.uses_grid:
        resident = nblocks
    samples = sample(grid) if options.trace else []
    for k, worker in enumerate(workers):
        worker.prepare(args[: kernel.param_bytes], table, len(memory.allocations), acquired)
        s = worker.schedule
        s[:] = 0
        s[schedule.S_NEXT], s[schedule.S_STEP], s[schedule.S_NBLOCKS] = k, len(workers), nblocks
        s[schedule.S_GX : schedule.S_GZ + 1] = grid
        s[schedule.S_BX : schedule.S_BZ + 1] = block
        s[schedule.S_FLAGS] = flags
        s[schedule.S_COUNT_ALL] = options.profile
        s[schedule.S_ONLY] = options.samples_only
        s[schedule.S_SAMPLE : schedule.S_SAMPLE + schedule.SAMPLES] = -1
        s[schedule.S_SAMPLE : schedule.S_SAMPLE + len(samples)] = samples
        s[schedule.S_TRACE], s[schedule.S_TRACE_WORDS] = worker.trace.ctypes.data, TRACE_WORDS
        s[schedule.S_SMS] = options.sms
        want = resident if options.cooperative and code.uses_grid else 1
        worker.reserve(want)
        s[schedule.S_NSLOTS] = len(worker.slots)
        s[schedule.S_OPEN] = want
        for slot in worker.slots:
            slot.set_grid(code, block, grid, shared)
    if len(workers) == 1:
        outcomes = [_run(workers[0], options, resident, code, block, grid, shared)]
    else:
        outcomes = list(
            _pool(os.getpid()).map(lambda w: _run(w, options, resident, code, block, grid, shared), workers)
        )
    if not options.initcheck:
        memory.all_written()
    trace = _trace(workers, samples, table)
    return _result(kernel, code, workers, outcomes, nblocks, memory, block, trace)


def _trace(workers, samples, table) -> Trace:
    """Each sampled block ran on one of the workers."""
    parts, starts = [], [0]
    for k in range(len(samples)):
        worker = next((w for w in workers if w.trace[k, 0, -1]), workers[0])
        for v, row in enumerate(worker.trace[k]):
            n = (
                (int(row[-1]) - worker.trace.ctypes.data) // 8 - (k * len(worker.trace[k]) + v) * TRACE_WORDS
                if row[-1]
                else 0
            )
            parts.append(row[:n])
            starts.append(starts[-1] + n)
    words = np.concatenate(parts) if parts else np.zeros(0, np.int64)
    return Trace(samples, words, np.array(starts, np.int64), table[:, [0, 1, state.ALLOC_INDEX]])


def _workers(kernel, code, block, shared, n) -> list[_Worker]:
    key = (block, shared)
    kept = kernel.slots.get(key)
    if kept is None:
        if len(kernel.slots) > 8:
            kernel.slots.clear()
        kept = kernel.slots[key] = []
    while len(kept) < n:
        kept.append(_Worker(kernel, code, block, shared))
    for worker in kept:
        if worker.grid[state.G_CLOCK // 8] > 1 << 28:  # epochs are 30 bits: start again with clean shadows
            kept[kept.index(worker)] = _Worker(kernel, code, block, shared)
    return kept[:n]


def _run(worker: _Worker, options, resident, code, block, grid, shared):
    """Drive one worker to its end. -> None, or (fault code, why)."""
    started = time.thread_time()
    s = worker.schedule
    mark, since = None, started
    done, done_since = None, started  # stores and blocks that have ended
    states: set[int] = set()  # in which the blocks have been since
    while True:
        status = schedule.run_grid(s, worker.slot_addresses, worker.active, worker.grid.ctypes.data)
        if status == schedule.FINISHED:
            return None
        if status in (schedule.FAULTED, schedule.DEADLOCK):
            return ("fault", int(s[schedule.S_FAULT_WARP]))
        now = time.thread_time()
        if options.deadline is not None and now - started > options.deadline:
            return ("timeout", now - started)
        if (work := _work_done(worker)) != done or not (options.racecheck or options.initcheck):
            done, done_since = work, now  # stores are only counted where somebody watches
            states.clear()
        elif now - done_since > STALL_SECONDS:
            before = len(states)
            states.add(_state_of(worker))
            if len(states) == before or _explained(worker) or now - done_since > BARRIER_SECONDS:
                return ("barriers", now - done_since)
        if s[schedule.S_SPINNING]:
            s[schedule.S_SPINNING] = 0
            if s[schedule.S_NEXT] < s[schedule.S_NBLOCKS] and len(worker.slots) < resident:
                fresh = len(worker.slots)
                busy = worker.active.copy()
                worker.reserve(min(resident, 2 * fresh))
                worker.active[:fresh] = busy
                for slot in worker.slots[fresh:]:
                    slot.set_grid(code, block, grid, shared)
                s[schedule.S_NSLOTS] = s[schedule.S_OPEN] = len(worker.slots)
            progress = (int(worker.grid[state.G_PROGRESS // 8]), int(s[schedule.S_EVENTS]), int(s[schedule.S_FINISHED]))
            if progress != mark:
                mark, since = progress, now
            elif now - since > STALL_SECONDS:
                return ("stalled", now - since)
        else:
            mark, since = None, now


def _work_done(worker: _Worker) -> tuple[int, int]:
    return int(worker.grid[state.G_PROGRESS // 8]), int(worker.schedule[schedule.S_FINISHED])


def _state_of(worker: _Worker) -> int:
    """Hash of where the threads of all blocks under way are and of their registers.

    The same state again, with no store in between, comes for ever.
    """
    parts = []
    for slot, active in zip(worker.slots, worker.active, strict=True):
        if active:
            first, stride = peek64(slot.address + state.B_WARPS), peek64(slot.address + state.B_WARP_STRIDE)
            for v in range(peek64(slot.address + state.B_NWARPS)):
                w = first + v * stride
                parts.append(raw_view(w, 4 * L.LANES).tobytes())
                parts.append(raw_view(w + L.FRAME, worker.code.frame_bytes - L.FRAME).tobytes())
    return hash(b"".join(parts))


def _explained(worker: _Worker) -> bool:
    """A barrier that some lanes of a warp have missed, or an mbarrier that was misused, is why nothing happens."""
    rows = worker.findings[: int(worker.grid[state.G_NFINDINGS // 8])]
    causes = np.isin(rows[:, 1], (state.SYNC_DIVERGENT, state.SYNC_MBARRIER))
    return bool(((rows[:, 0] == state.SYNCCHECK) & causes).any())


def _result(kernel, code, workers, outcomes, nblocks, memory, block, trace) -> LaunchResult:
    counts = sum(w.counts for w in workers)
    sites = sum(w.sites[:, : count.COUNTER_BYTES // 8] for w in workers)
    counted = sum(int(w.schedule[schedule.S_COUNTED]) for w in workers)
    work = sum(w.schedule for w in workers)
    busiest = max(int(w.schedule[schedule.S_WORK_MAX]) for w in workers)
    finished, sampled = max(1, int(work[schedule.S_FINISHED])), max(1, len(trace.blocks))
    counters = Counters(
        nblocks, counted, counts, code, sites, trace, int(work[schedule.S_WORK]) / finished, busiest,
        int(work[schedule.S_WORK_SAMPLED]) / sampled,
    )  # fmt: skip
    findings, printed = [], b""
    for worker in workers:
        n = int(worker.grid[state.G_NFINDINGS // 8])
        findings += make_findings(worker.findings[:n], kernel, code, memory, block)
        printed += format_prints(worker, memory)
    fault = None
    for worker, outcome in zip(workers, outcomes, strict=True):
        if outcome is not None and fault is None:
            fault = make_fault(outcome, worker, kernel, code, memory, block, _explained(worker))
    if fault is not None and fault.finding is not None:
        findings.append(fault.finding)
    elif fault is not None and fault.kind == "deadlock":  # synccheck has said it
        kinds = ("missing lanes", "deadlock", "divergent barrier", "mbarrier")
        fault.finding = next((f for f in findings if f.kind in kinds), None)
    for finding in findings:
        finding.kernel = kernel.name
    return LaunchResult(fault, findings, counters, printed)
