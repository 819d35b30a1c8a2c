"""A kernel's time on a card: one SM is simulated with the blocks that it gets first, and scaled to all it gets."""

import hashlib
from dataclasses import dataclass, field, replace

import numpy as np

from . import costs, program, simulate, traces
from .cards import Timing, timing
from .occupancy import Occupancy, occupancy

NODE_GAP_US = 0.2  # of the time that a node of a graph takes: the rest is from the start of an empty kernel to its end
BUDGET = 200_000  # warp instructions that are simulated
SM_PORT = 64.0  # bytes a clock between an SM and L2
L2_SHARE = 0.8  # of the L2 that holds what is used again
BUSY = 0.6  # a server that is busy for this part of the time is what bounds the kernel


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


_programs: dict[int, tuple] = {}


def _program(kernel):
    kept = _programs.get(id(kernel))
    if kept is None or kept[0] is not kernel:
        if len(_programs) > 64:
            _programs.clear()
        kept = _programs[id(kernel)] = (kernel, program.build(kernel))
    return kept[1]


def kernel_time(card, kernel, grid, block, shared: int, registers: int, result, mix=None) -> Estimate:
    """How long a launch takes on `card` (grader.vgpu.devices.Card).

    kernel: machine.Kernel; grid, block: (x, y, z); shared: a block's bytes, static and dynamic; registers: a thread's, 0 if
    unknown; result: LaunchResult; mix: pipe -> instructions of its machine code, where known. The same launch gives the same figures on every machine.
    """
    counters = result.counters
    threads = block[0] * block[1] * block[2]
    fits = occupancy(card.cc, threads, registers, shared)
    trace = counters.trace
    times = timing(card.key)
    if not counters.counted_blocks or not len(trace.words):
        return Estimate(times.graph_node_us - NODE_GAP_US, "latency", occupancy=fits)
    blocks = grid[0] * grid[1] * grid[2]
    nwarps = -(-threads // 32)
    resident = max(1, min(fits.blocks, -(-blocks // card.sms)))
    l2 = card.l2_bytes * L2_SHARE
    traffic = traces.analyse(
        trace,
        counters.code.sites,
        nwarps,
        len(counters.code.blocks),
        grid,
        min(blocks, max(1, fits.blocks) * card.sms),
        l2,
    )
    digest = hashlib.blake2b(traffic.words.tobytes(), digest_size=16)
    digest.update(traffic.miss.tobytes())
    digest.update(counters.runs.tobytes())
    key = (
        id(kernel),
        card,
        tuple(grid),
        tuple(block),
        shared,
        registers,
        digest.digest(),
        counters.counted_blocks,
        bool(mix),
    )
    if key not in _known:
        if len(_known) > 512:
            _known.clear()
        _known[key] = _estimate(card, times, kernel, counters, traffic, blocks, nwarps, resident, fits, shared, mix)
    return replace(_known[key], touched=traffic.touched)


_known: dict[tuple, Estimate] = {}


def _estimate(card, times: Timing, kernel, counters, traffic, blocks, nwarps, resident, fits, shared, mix) -> Estimate:
    code = _program(kernel)
    trace = counters.trace
    ntraces = len(trace.blocks)
    per_sm = -(-blocks // card.sms)
    issued = np.concatenate([[0], np.cumsum(code.kind != program.ALIAS)])
    lengths = issued[code.first[1:]] - issued[code.first[:-1]]
    instructions = float((counters.runs[:, 0] * lengths).sum()) / counters.counted_blocks  # of a block
    traced = float((traffic.entries * lengths).sum()) / ntraces
    wanted = min(per_sm, 2 * resident)
    shared_bytes = 0 if not fits.blocks else min(resident * shared, times.l1_kb * 1024)
    m = _parameters(card, times, traffic, blocks, per_sm, shared_bytes)
    out, stalls = np.zeros(simulate.O_WORDS), np.zeros(len(simulate.STALLS))
    by_line = np.zeros((max(1, len(code.kind)), len(simulate.STALLS)))
    simulate.simulate(
        code.first, code.kind, code.pipe, _slots(code, mix), code.latency, code.site, code.arg, code.regs_first, code.dests_first,
        code.regs, code.nregs, traffic.words, trace.starts, nwarps, ntraces, resident, wanted, m, traffic.miss, out, stalls,
        by_line, np.zeros((0, 6)),
    )  # fmt: skip
    done = out[simulate.O_INSTRUCTIONS] / max(traced * wanted, 1.0)  # part of the simulated blocks' work
    busy = max(out[simulate.O_CYCLES], out[simulate.O_L2_FREE], out[simulate.O_DRAM_FREE])
    longer = max(1.0, instructions / max(traced, 1.0))  # what the traces leave out
    scale = per_sm * longer / (wanted * max(done, 1e-9))
    time = busy * scale
    if wanted > resident and done > 0.999:
        rate = (busy - out[simulate.O_FIRST_WAVE]) / (wanted - resident)
        time = (busy + rate * (per_sm - wanted)) * longer
    use = _use(code, by_line, out, m, busy)
    highest = max(use, key=use.get)
    sm_blocks = blocks / per_sm  # SMs' worth of what the busiest one does
    grid_scale = 32 * scale * sm_blocks
    l1, l2 = out[simulate.O_L1_SECTORS], out[simulate.O_L2_SECTORS]
    return Estimate(
        us=times.graph_node_us - NODE_GAP_US + time / card.clock_mhz,
        bound_by=highest if use[highest] >= BUSY else "latency",
        use=use,
        stalls=_parts(stalls, stalls.sum()),
        lines=_by_line(code, by_line, stalls.sum()),
        occupancy=fits,
        achieved=min(fits.ratio, float(stalls.sum() / max(out[simulate.O_CYCLES], 1.0) / fits.max_warps)),
        ipc=float(out[simulate.O_SLOTS] / max(busy, 1.0)),
        l1_hit=float(out[simulate.O_L1_HITS] / max(l1, 1.0)),
        l2_hit=float(1 - (out[simulate.O_DRAM_READ] + out[simulate.O_DRAM_WRITE]) / max(l2, 1.0)),
        l2_bytes=float(l2 * grid_scale),
        dram_read=float(out[simulate.O_DRAM_READ] * grid_scale),
        dram_write=float(out[simulate.O_DRAM_WRITE] * grid_scale),
        cycles=float(time),
    )


def _slots(code, mix):
    """Issue slots of the PTX's instructions, made to add up to those of the machine code, pipe by pipe.

    Only where ptxas kept the loops as they are, which the number of memory accesses tells.
    """
    slots = code.slots.copy()
    accesses = int(np.isin(code.kind, _ACCESSES).sum())
    if not mix or mix.get(costs.LSU, 0) != accesses:
        return slots
    for pipe in (costs.FMA, costs.ALU, costs.FP64, costs.XU):
        own = code.pipe == pipe
        if slots[own].sum():
            slots[own] *= min(2.0, max(0.25, mix.get(pipe, 0) / slots[own].sum()))
    return slots


_ACCESSES = (program.LOAD, program.STORE, program.SHARED_LOAD, program.SHARED_STORE, program.COPY)


def _use(code, by_line, out, m, busy) -> dict[str, float]:
    """How busy each server was."""
    slots = by_line[:, simulate.SELECTED]
    use = {"issue": float(slots.sum() / 4 / busy)}
    for pipe, name in enumerate(costs.PIPES):
        if pipe not in (costs.LSU, costs.CBU):
            use[name] = float(slots[code.pipe == pipe].sum() * m[simulate.M_PIPE + pipe] / 4 / busy)
    use["L1/shared"] = float(out[simulate.O_L1_BUSY] / busy)
    use["L2"] = float(out[simulate.O_L2_BUSY] / busy)
    dram = out[simulate.O_DRAM_READ] + out[simulate.O_DRAM_WRITE]
    use["DRAM"] = float(dram * 32 / m[simulate.M_DRAM_RATE] / busy)
    return use


def _parts(cycles, total) -> dict[str, float]:
    return {name: float(x / max(total, 1e-9)) for name, x in zip(simulate.STALLS, cycles, strict=True) if x}


def _by_line(code, by_line, total) -> dict[int, dict[str, float]]:
    return {int(n): _parts(by_line[code.lines == n].sum(axis=0), total) for n in np.unique(code.lines)}


def _parameters(card, times, traffic, blocks, per_sm, shared_bytes):
    m = np.zeros(simulate.M_WORDS)
    m[simulate.M_L1_LATENCY], m[simulate.M_SHARED_LATENCY] = times.l1_latency, times.shared_latency
    m[simulate.M_L2_LATENCY], m[simulate.M_DRAM_LATENCY] = times.l2_latency, times.dram_latency
    m[simulate.M_L1_MIN] = times.l1_min_cycles
    part = per_sm / blocks  # of the grid's traffic that the busiest SM has
    m[simulate.M_L2_RATE] = min(SM_PORT, times.l2_bytes_per_clock * part)
    m[simulate.M_DRAM_RATE] = min(SM_PORT, times.dram_gbs * 1e3 / card.clock_mhz * part)
    m[simulate.M_L1_SETS] = max(4, int((times.l1_kb - shared_bytes / 1024) * 8 / simulate.WAYS))
    l2 = card.l2_bytes * L2_SHARE
    m[simulate.M_WRITE_DRAM] = max(0.0, 1 - l2 / 2 / max(traffic.written, 1.0))
    m[simulate.M_RETOUCH] = max(0.0, 1 - l2 / max(traffic.wave, 1.0))
    m[simulate.M_BUDGET] = BUDGET
    for pipe in range(len(costs.PIPES)):
        m[simulate.M_PIPE + pipe] = 32 / (costs.unit_lanes(pipe, card, times) / 4)
    return m
