"""A kernel's time as the largest of its bounds, from exact counters alone.

The bounds (issue, each pipe, shared memory and L1, L2, device memory, exposed latency) are those of a roofline with more
than two roofs; each is per SM, in cycles.
"""

import math
from dataclasses import dataclass

from ..jit import layout as L
from . import costs

COUNTERS = ("requests", "lanes", "sectors", "wavefronts", "ideal", "bytes", "lines")


@dataclass(frozen=True)
class Work:
    """What one block of threads does, on average over the counted ones."""

    slots: float  # issue slots
    pipes: dict[int, float]  # pipe -> warp instructions
    shared_wavefronts: float
    l1_cycles: float
    sectors: float  # between L1 and L2
    chain: float  # cycles that a lone warp takes, memory latency included


def is_shared(site, row) -> bool:
    """True if the site's accesses went to shared memory (a generic address can)."""
    return site.space == L.SPACE_SHARED or (site.space == L.SPACE_GENERIC and row[3] > 0)


def block_work(counters, card, timing, warps: int) -> Work:
    """The counters of an average block."""
    blocks = max(1, counters.counted_blocks)
    slots, pipes = 0.0, dict.fromkeys(range(len(costs.PIPES)), 0.0)
    chain = 0.0
    for code, (runs, _) in zip(counters.code.blocks, counters.runs, strict=True):
        for op, *_ in code:
            pipe, n, latency = costs.cost(tuple(op.split(".")))
            slots += runs * n
            chain += runs * max(n, latency if pipe != costs.LSU else n)
            if pipe != costs.NONE:
                pipes[pipe] += runs * n
    wavefronts = l1 = sectors = 0.0
    waits: dict[int, float] = {}
    for site, row in zip(counters.code.sites, counters.sites, strict=False):
        requests, touched, passes, lines = row[0], row[2], row[3], row[6]
        if is_shared(site, row):
            wavefronts += passes
            waits[site.block] = max(waits.get(site.block, 0.0), requests * timing.shared_latency)
        elif touched:
            l1 += max(requests * timing.l1_min_cycles, touched / 4, lines / 4)
            sectors += touched
            if site.kind != L.STORE:
                waits[site.block] = max(waits.get(site.block, 0.0), requests * timing.l2_latency)
    chain = (chain + sum(waits.values())) / warps
    n = float(blocks)
    pipes = {pipe: count / n for pipe, count in pipes.items()}
    return Work(slots / n, pipes, wavefronts / n, l1 / n, sectors / n, chain / n)


def bounds(work: Work, card, timing, blocks: int, resident: int) -> dict[str, float]:
    """Cycles of the whole grid by each bound."""
    per_sm = math.ceil(blocks / card.sms)
    active = min(blocks, card.sms)
    out = {"issue": per_sm * work.slots / 4}
    for pipe, count in work.pipes.items():
        if pipe not in (costs.LSU, costs.CBU):
            out[costs.PIPES[pipe]] = per_sm * count * 32 / costs.unit_lanes(pipe, card, timing)
    out["L1/shared"] = per_sm * (work.shared_wavefronts + work.l1_cycles)
    share = max(timing.l2_bytes_per_clock / active, 0.0)
    out["L2"] = per_sm * work.sectors * 32 / min(share, 64.0)
    out["DRAM"] = blocks * work.sectors * 32 / (timing.dram_gbs * 1e3 / card.clock_mhz)
    out["latency"] = math.ceil(per_sm / max(1, resident)) * work.chain
    return out
