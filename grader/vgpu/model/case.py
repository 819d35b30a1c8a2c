"""A launch made ready for the simulation of one SM, and that simulation."""

import hashlib
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from . import costs, program, simulate, traces
from .cards import Timing, timing
from .occupancy import Occupancy, occupancy

BUDGET = 200_000  # warp instructions that are simulated
SM_PORT = 64.0  # bytes a clock between an SM and L2
L2_SHARE = 0.8  # of the L2 that holds what is used again
SAMPLE_WORDS = 7  # of a row of issue times: when, warp, instruction, end, why it waited, for how long, which block

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

    def digest(self) -> bytes:
        """What the simulation depends on, of the launch."""
        digest = hashlib.blake2b(self.traffic.words.tobytes(), digest_size=16)
        digest.update(self.traffic.miss.tobytes())
        digest.update(self.counters.runs.tobytes())
        work = (self.counters.work_mean, self.counters.work_max, self.counters.work_sampled)
        shape = (self.card, self.grid, self.warps, self.shared, self.fits, self.mix, self.counters.counted_blocks, work)
        digest.update(repr(shape).encode())
        return digest.digest()


@dataclass(frozen=True)
class Outcome:
    """What the simulation gave: simulate's arrays, and the parameters it ran with."""

    out: np.ndarray
    stalls: np.ndarray
    by_line: np.ndarray
    machine: np.ndarray
    rows: np.ndarray  # issue times


def seen(card, grid, block, shared: int, registers: int, counters, mix) -> bytes:
    """A key of a launch as it was traced, addresses and all."""
    digest = hashlib.blake2b(counters.trace.words.data, digest_size=16)
    digest.update(counters.trace.allocations.tobytes())
    digest.update(counters.runs.tobytes())
    work = (counters.work_mean, counters.work_max, counters.work_sampled)
    shape = (card, tuple(grid), tuple(block), shared, registers, mix, counters.counted_blocks, work)
    digest.update(repr(shape).encode())
    return digest.digest()


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
    """Simulate one SM; keep the first `rows` issue times."""
    code, trace = case.code, case.counters.trace
    machine = _parameters(case)
    out, stalls = np.zeros(simulate.O_WORDS), np.zeros(len(simulate.STALLS))
    by_line = np.zeros((max(1, len(code.kind)), len(simulate.STALLS)))
    samples = np.zeros((rows, SAMPLE_WORDS))
    n = simulate.simulate(
        code.first, code.kind, code.pipe, _slots(code, case.mix), code.latency, code.site, code.arg, code.regs_first,
        code.dests_first, code.regs, code.nregs, case.traffic.words, trace.starts, case.warps, len(trace.blocks),
        case.resident, case.simulated, machine, case.traffic.miss, out, stalls, by_line, samples,
    )  # fmt: skip
    return Outcome(out, stalls, by_line, machine, samples[:n])


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


def _parameters(case: Case) -> np.ndarray:
    times, card, traffic = case.times, case.card, case.traffic
    m = np.zeros(simulate.M_WORDS)
    m[simulate.M_L1_LATENCY], m[simulate.M_SHARED_LATENCY] = times.l1_latency, times.shared_latency
    m[simulate.M_L2_LATENCY], m[simulate.M_DRAM_LATENCY] = times.l2_latency, times.dram_latency
    m[simulate.M_L1_MIN] = times.l1_min_cycles
    m[simulate.M_WAVEFRONT_CYCLES] = 128 / times.l1_bytes_per_clock
    part = case.per_sm / case.blocks  # of the grid's traffic that the busiest SM has
    m[simulate.M_L2_RATE] = min(SM_PORT, times.l2_bytes_per_clock * part)
    m[simulate.M_DRAM_RATE] = min(SM_PORT, times.dram_gbs * 1e3 / card.clock_mhz * part)
    taken = min(case.resident * case.shared / 1024, times.l1_kb)
    m[simulate.M_L1_SETS] = max(4, int((times.l1_kb - taken) * 8 / simulate.WAYS))
    l2 = card.l2_bytes * L2_SHARE
    m[simulate.M_WRITE_DRAM] = max(0.0, 1 - l2 / 2 / max(traffic.written, 1.0))
    m[simulate.M_RETOUCH] = max(0.0, 1 - l2 / max(traffic.wave, 1.0))
    m[simulate.M_BUDGET] = BUDGET
    for pipe in range(len(costs.PIPES)):
        m[simulate.M_PIPE + pipe] = 32 / (costs.unit_lanes(pipe, card, times) / 4)
    return m
