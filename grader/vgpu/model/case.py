"""A launch made ready for the simulation of one SM, and that simulation."""

import hashlib
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from ..jit import layout as L
from . import costs, program, sm, traces
from .cards import Timing, timing
from .occupancy import Occupancy, occupancy
from .simulate import Outcome, simulate

BUDGET = 200_000  # warp instructions that are simulated
SM_PORT = 64.0  # bytes a clock between an SM and L2
L2_SHARE = 0.8  # of the L2 that holds what is used again

_programs: WeakKeyDictionary = WeakKeyDictionary()
_ACCESSES = (program.LOAD, program.STORE, program.SHARED_LOAD, program.SHARED_STORE, program.COPY)


@dataclass(frozen=True)
class Case:
    """One launch on one card."""

    card: object  # grader.vgpu.devices.Card
    times: Timing
    code: program.Program
    counters: object  # machine.Counters
    traffic: traces.Traffic
    grid: tuple[int, int, int]
    warps: int  # of a block
    shared: int  # bytes of a block
    fits: Occupancy
    mix: dict[int, int] | None  # pipe -> instructions of the machine code

    @property
    def blocks(self) -> int:
        """Of the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def per_sm(self) -> int:
        """Blocks of the busiest SM."""
        return -(-self.blocks // self.card.sms)

    @property
    def resident(self) -> int:
        """Blocks that it has at once."""
        return max(1, min(self.fits.blocks, self.per_sm))

    @property
    def simulated(self) -> int:
        """Blocks that are simulated."""
        return min(self.per_sm, 2 * self.resident)

    @property
    def part(self) -> float:
        """Of the grid's traffic that the busiest SM has."""
        return self.per_sm / self.blocks

    @property
    def dram_rate(self) -> float:
        """Of that SM, bytes a cycle."""
        return min(SM_PORT, self.times.dram_gbs * 1e3 / self.card.clock_mhz * self.part)

    def digest(self) -> bytes:
        """What the simulation depends on, of the launch."""
        digest = hashlib.blake2b(self.traffic.words.tobytes(), digest_size=16)
        digest.update(self.traffic.miss.tobytes())
        digest.update(self.counters.runs.tobytes())
        work = (self.counters.work_mean, self.counters.work_max, self.counters.work_sampled)
        shape = (self.card, self.grid, self.warps, self.shared, self.fits, self.mix, self.counters.counted_blocks, work)
        digest.update(repr((*shape, moved(self.counters))).encode())
        return digest.digest()


def seen(card, grid, block, shared: int, registers: int, counters, mix) -> bytes:
    """A key of a launch as it was traced, addresses and all."""
    digest = hashlib.blake2b(counters.trace.words.data, digest_size=16)
    digest.update(counters.trace.allocations.tobytes())
    digest.update(counters.runs.tobytes())
    work = (counters.work_mean, counters.work_max, counters.work_sampled)
    shape = (card, tuple(grid), tuple(block), shared, registers, mix, counters.counted_blocks, work)
    digest.update(repr((*shape, moved(counters))).encode())
    return digest.digest()


def moved(counters) -> tuple[float, float]:
    """(sectors of global memory that accesses touch, wavefronts of shared memory) of an average block that was counted."""
    sectors = wavefronts = 0
    for site, row in zip(counters.code.sites, counters.sites.tolist(), strict=False):
        if row[3]:
            wavefronts += row[3]
        elif site.space in (L.SPACE_GLOBAL, L.SPACE_GENERIC):
            sectors += row[2]
    return sectors / counters.counted_blocks, wavefronts / counters.counted_blocks


def program_of(kernel) -> program.Program:
    """The kernel's program, built once."""
    if kernel not in _programs:
        _programs[kernel] = program.build(kernel)
    return _programs[kernel]


def prepare(card, kernel, grid, block, shared: int, registers: int, result, mix=None) -> Case | None:
    """Arguments as of `kernel_time`; None for a launch that left no trace."""
    counters = result.counters
    if not counters.counted_blocks or not len(counters.trace.words):
        return None
    threads = block[0] * block[1] * block[2]
    fits, warps = occupancy(card.cc, threads, registers, shared), -(-threads // 32)
    at_once = min(grid[0] * grid[1] * grid[2], max(1, fits.blocks) * card.sms)
    code = counters.code
    traffic = traces.analyse(
        counters.trace, code.sites, warps, len(code.blocks), grid, at_once, card.l2_bytes * L2_SHARE
    )
    return Case(
        card, timing(card.key), program_of(kernel), counters, traffic, tuple(grid), warps, shared, fits, mix or None
    )


def run(case: Case, rows: int = 0) -> Outcome:
    """Simulate one SM; keep the first `rows` issues."""
    code, trace = case.code, case.counters.trace
    return simulate(
        _instructions(code, case.mix), code.nregs, code.regs, code.first, case.traffic.words, trace.starts, case.warps,
        len(trace.blocks), case.resident, case.simulated, _machine(case), intervals(case), case.traffic.miss, rows,
    )  # fmt: skip


def _instructions(code: program.Program, mix: dict[int, int] | None) -> np.ndarray:
    """The program as the simulation reads it: sm.INSTRUCTION."""
    rows = np.zeros(len(code.kind), sm.INSTRUCTION)
    for name in ("kind", "pipe", "site", "arg", "latency"):
        rows[name] = getattr(code, name)
    rows["slots"] = _slots(code, mix)
    rows["regs"], rows["dests"], rows["regs_end"] = code.regs_first[:-1], code.dests_first, code.regs_first[1:]
    return rows


def _slots(code: program.Program, mix: dict[int, int] | None) -> np.ndarray:
    """Issue slots of the PTX's instructions, made to add up to those of the machine code, pipe by pipe.

    Only where ptxas kept the loops as they are, which the number of memory accesses tells.
    """
    slots = code.slots.copy()
    if not mix or mix.get(costs.LSU, 0) != int(np.isin(code.kind, _ACCESSES).sum()):
        return slots
    for pipe in (costs.FMA, costs.ALU, costs.FP64, costs.XU):
        own = code.pipe == pipe
        if slots[own].sum():
            slots[own] *= min(2.0, max(0.25, mix.get(pipe, 0) / slots[own].sum()))
    return slots


def _machine(case: Case) -> np.ndarray:
    """One SM of the card with its part of L2 and DRAM: an array of one sm.MACHINE."""
    times, card, traffic = case.times, case.card, case.traffic
    m = np.zeros(1, sm.MACHINE)
    for name in ("l1_latency", "shared_latency", "l2_latency", "dram_latency"):
        m[name] = getattr(times, name)
    m["l1_least"] = times.l1_min_cycles
    m["wavefront"] = 128 / times.l1_bytes_per_clock
    m["l2_rate"] = min(SM_PORT, times.l2_bytes_per_clock * case.part)
    m["dram_rate"] = case.dram_rate
    taken = min(case.resident * case.shared / 1024, times.l1_kb)
    m["sets"] = max(4, int((times.l1_kb - taken) * 8 / sm.WAYS))
    l2 = card.l2_bytes * L2_SHARE
    m["written"] = max(0.0, 1 - l2 / 2 / max(traffic.written, 1.0))
    m["retouched"] = max(0.0, 1 - l2 / max(traffic.wave, 1.0))
    m["budget"] = BUDGET
    return m


def intervals(case: Case) -> np.ndarray:
    """Cycles from one instruction to the next on each pipe of a scheduler."""
    return np.array([32 / (costs.unit_lanes(p, case.card, case.times) / 4) for p in range(len(costs.PIPES))])
