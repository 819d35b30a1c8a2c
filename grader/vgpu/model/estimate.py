"""A kernel's time on a card: one SM is simulated with the blocks that it gets first, and scaled to all it gets."""

from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

import numpy as np

from . import case as cases
from . import costs, program, sm, traces
from .cards import timing
from .occupancy import Occupancy, occupancy

NODE_GAP_US = 0.2  # of what a node of a graph takes; the rest is from the start of an empty kernel to its end
MAX_KNOWN = 256  # launches of a kernel that are remembered
UNLIKE = 1.5  # times the traced blocks' instructions or memory: from there on the others are not like them
MOST_UNLIKE = 16.0  # times as long, at most, because others move more memory than was traced
BUSY = 0.6  # a server that is busy for this part of the time is what bounds the kernel

_known: WeakKeyDictionary = WeakKeyDictionary()  # kernel -> {digest of the case: Estimate}


@dataclass(frozen=True)
class Estimate:
    """A kernel's modelled time and what it is made of."""

    us: float
    bound_by: str  # "issue", a pipe, "L1/shared", "L2", "DRAM", "latency"
    use: dict[str, float] = field(default_factory=dict)  # part of the time that each of these is busy, 0 to 1
    stalls: dict[str, float] = field(default_factory=dict)  # Nsight Compute's name -> part of the warps' time
    lines: dict[int, dict[str, float]] = field(default_factory=dict)  # the student's line -> the same, parts of all
    occupancy: Occupancy | None = None
    achieved: float = 0.0  # occupancy, 0 to 1
    ipc: float = 0.0  # warp instructions per SM and cycle
    l1_hit: float = 0.0  # part of the sectors asked for
    l2_hit: float = 0.0
    l2_bytes: float = 0.0  # of the whole grid
    dram_read: float = 0.0
    dram_write: float = 0.0
    cycles: float = 0.0
    touched: dict[int, float] = field(default_factory=dict)  # allocation's first address -> bytes that the grid touches


def kernel_time(card, kernel, grid, block, shared: int, registers: int, result, mix=None) -> Estimate:
    """How long a launch takes on `card` (grader.vgpu.devices.Card).

    kernel: machine.Kernel; grid, block: (x, y, z); shared: a block's bytes, static and dynamic; registers: a thread's,
    0 if unknown; result: LaunchResult; mix: pipe -> instructions of its machine code (model.sass), where known. The
    same launch gives the same figures on every machine.
    """
    fits = occupancy(card.cc, block[0] * block[1] * block[2], registers, shared)
    empty = Estimate(timing(card.key).graph_node_us - NODE_GAP_US, "latency", occupancy=fits)
    if result.fault is not None:  # its trace may name memory that is nobody's
        return empty
    trace = result.counters.trace
    known, seen = _known.setdefault(kernel, {}), None
    if result.counters.counted_blocks and len(trace.words):
        seen = cases.seen(card, grid, block, shared, registers, result.counters, mix)
        if seen in known:
            return known[seen]
    case = cases.prepare(card, kernel, grid, block, shared, registers, result, mix)
    if case is None:
        return empty
    if len(known) > MAX_KNOWN:
        known.clear()
    key = case.digest()  # the same wherever memory lies
    if key not in known:
        known[key] = _estimate(case)
    first = dict(zip(traces.rank(trace), trace.allocations[:, 0].tolist(), strict=True))
    touched = {first[number]: nbytes for number, nbytes in case.traffic.touched.items()}
    known[seen] = replace(known[key], touched=touched)
    return known[seen]


def issue_times(card, kernel, grid, block, shared: int, registers: int, result, mix=None, rows: int = 40_000):
    """The kernel's Program and its first issues (sm.SAMPLE); arguments as of `kernel_time`."""
    case = cases.prepare(card, kernel, grid, block, shared, registers, result, mix)
    if case is None:
        return cases.program_of(kernel), np.zeros(0, sm.SAMPLE).view(np.recarray)
    return case.code, cases.run(case, rows).samples


def _estimate(case: cases.Case) -> Estimate:
    done = cases.run(case)
    out, stalls = done.result, done.stalls
    busy = max(out.cycles, out.l2_free, out.dram_free)
    use = _use(case, done, busy)
    highest = max(use, key=use.get)
    scale, cycles = _scale(case, out, busy, use[highest])
    cycles = _uneven(case, out, cycles) * _unseen(case)
    grid_bytes = 32 * scale * case.blocks / case.per_sm  # of a sector of the simulated SM
    l1, l2 = out.l1_sectors, out.l2_sectors
    dram = out.dram_read + out.dram_write
    active = stalls.sum() / max(out.cycles, 1.0)
    return Estimate(
        us=case.times.graph_node_us - NODE_GAP_US + cycles / case.card.clock_mhz,
        bound_by=highest if use[highest] >= BUSY else "latency",
        use=use,
        stalls=_parts(stalls, stalls.sum()),
        lines=_by_line(case.code, done.by_line, stalls.sum()),
        occupancy=case.fits,
        achieved=min(case.fits.ratio, float(active / case.fits.max_warps)),
        ipc=float(out.slots / max(busy, 1.0)),
        l1_hit=float(out.l1_hits / max(l1, 1.0)),
        l2_hit=float(1 - dram / max(l2, 1.0)),
        l2_bytes=float(l2 * grid_bytes),
        dram_read=float(out.dram_read * grid_bytes),
        dram_write=float(out.dram_write * grid_bytes),
        cycles=float(cycles),
    )


def _scale(case: cases.Case, out, busy: float, highest: float) -> tuple[float, float]:
    """(factor from what was simulated to all that the SM does, its cycles). `highest`: use of the busiest server."""
    whole, traced = _instructions(case)
    longer = max(1.0, whole / max(traced, 1.0))  # what the traces leave out
    done = out.instructions / max(traced * case.simulated, 1.0)
    scale = case.per_sm * longer / (case.simulated * max(done, 1e-9))
    if case.simulated > case.resident and done > 0.999:
        rate = (busy - out.first_wave) / (case.simulated - case.resident)  # cycles a block
        rate = max(rate, highest * busy / case.simulated)  # blocks that started while others ran have less left to do
        return scale, (busy + rate * (case.per_sm - case.simulated)) * longer
    return scale, busy * scale


def _instructions(case: cases.Case) -> tuple[float, float]:
    """Instructions of an average block that was counted, and of an average one as it was traced."""
    counters, code = case.counters, case.code
    issued = np.concatenate([[0], np.cumsum(code.kind != program.ALIAS)])
    lengths = issued[code.first[1:]] - issued[code.first[:-1]]
    whole = float((counters.runs[:, 0] * lengths).sum()) / counters.counted_blocks
    return whole, float((case.traffic.entries * lengths).sum()) / len(counters.trace.blocks)


def _uneven(case: cases.Case, out, cycles: float) -> float:
    """Blocks that do not do alike: all together, and the busiest one alone, take as much longer as they do more."""
    c = case.counters
    traced = max(c.work_sampled, 1.0)
    if c.counted_blocks <= len(c.trace.blocks):  # else all blocks' instructions are in the scale already
        cycles *= max(1.0, c.work_mean / traced)
    alone = out.first_wave or out.cycles
    return max(cycles, alone * c.work_max / traced) if c.work_max > UNLIKE * traced else cycles


def _unseen(case: cases.Case) -> float:
    """How many times as much memory the blocks of the grid move as those that were traced, where it is much more.

    A kernel knows its block's index: it could have the traced blocks leave the slow work to others. Of the instructions
    that these do more, the time knows already; and where traces break off early, their accesses do too.
    """
    c = case.counters
    if c.counted_blocks <= len(c.trace.blocks):
        return 1.0
    whole, traced = _instructions(case)
    longer = max(1.0, whole / max(traced, 1.0), c.work_max / max(c.work_sampled, 1.0))
    pairs = zip(cases.moved(c), case.traffic.moved, strict=True)
    times = max(all_blocks / (max(one, 1.0) * longer) for all_blocks, one in pairs)
    return min(times, MOST_UNLIKE) if times > UNLIKE else 1.0


def _use(case: cases.Case, done: cases.Outcome, busy: float) -> dict[str, float]:
    """How busy each server was."""
    out, code, intervals = done.result, case.code, cases.intervals(case)
    slots = done.by_line[:, sm.SELECTED]
    use = {"issue": float(slots.sum() / 4 / busy)}
    for pipe, name in enumerate(costs.PIPES):
        if pipe not in (costs.LSU, costs.CBU):
            use[name] = float(slots[code.pipe == pipe].sum() * intervals[pipe] / 4 / busy)
    use["L1/shared"] = float(out.l1_busy / busy)
    use["L2"] = float(out.l2_busy / busy)
    dram = out.dram_read + out.dram_write
    use["DRAM"] = float(dram * 32 / case.dram_rate / busy)
    return use


def _parts(cycles, total) -> dict[str, float]:
    return {name: float(x / max(total, 1e-9)) for name, x in zip(sm.STALLS, cycles, strict=True) if x}


def _by_line(code, by_line, total) -> dict[int, dict[str, float]]:
    return {int(n): _parts(by_line[code.lines == n].sum(axis=0), total) for n in np.unique(code.lines)}
