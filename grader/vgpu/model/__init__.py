"""The clock: how long a kernel takes on a card, and what it waits for. Times are modelled, never measured."""

from dataclasses import dataclass, field

from . import analytic
from .cards import Timing, timing
from .occupancy import Occupancy, occupancy


@dataclass(frozen=True)
class Estimate:
    """A kernel's modelled time."""

    us: float
    bound_by: str  # "issue", a pipe, "L1/shared", "L2", "DRAM", "latency"
    bounds: dict[str, float] = field(default_factory=dict)  # each bound alone, us
    occupancy: Occupancy | None = None


RAMP_US = 1.2  # from the start of an empty kernel to its end


def kernel_time(card, registers: int, shared: int, grid, block, result) -> Estimate:
    """How long a launch takes on `card`.

    registers: a thread's; shared: a block's bytes, static and dynamic; grid, block: (x, y, z); result: LaunchResult.
    """
    times = timing(card.key)
    threads = block[0] * block[1] * block[2]
    blocks = grid[0] * grid[1] * grid[2]
    fits = occupancy(card.cc, threads, registers, shared)
    if not result.counters.counted_blocks:
        return Estimate(RAMP_US, "latency", {}, fits)
    work = analytic.block_work(result.counters, card, times, -(-threads // 32))
    cycles = analytic.bounds(work, card, times, blocks, fits.blocks)
    bound_by = max(cycles, key=cycles.get)
    us = {name: float(n) / card.clock_mhz for name, n in cycles.items()}
    return Estimate(RAMP_US + us[bound_by], bound_by, us, fits)


__all__ = ["Estimate", "Occupancy", "Timing", "kernel_time", "occupancy", "timing"]
