"""What speaks against a time: a second clock, what the card can do at most, and what the card says of itself."""

from collections.abc import Mapping, Sequence

import numpy as np

from grader.evidence import CardState, RunResult
from grader.problems.model import Problem

CLOCK_SPREAD = 0.05  # a round counts when the SM clock differs by no more between its sides
SECOND_CLOCK = 0.05, 100e-6  # of the time, and seconds: so far may the two clocks disagree
OWN_NOISE = 4.0  # times the spread of the trusted sides
LEAST_NOISE = 0.05  # below this spread, relative, nothing is said of noise


def floor(problem: Problem, sizes: Mapping[str, int], card: dict) -> float:
    """Seconds that no program can beat on this card: bytes that must move, operations that must be done.

    Every input comes from memory, because the caches were flushed; of the outputs, as much may stay behind in the L2
    cache as it holds. `card` is a device's description: memory_bytes_per_s, l2_bytes and flop_per_s, each the
    theoretical peak, for the fastest unit that the card has; what is missing there sets no floor.
    """
    read = sum(a.nbytes(sizes) for a in problem.entry.arrays if a.role in ("input", "inout"))
    written = sum(a.nbytes(sizes) for a in problem.entry.arrays if a.role in ("output", "inout"))
    seconds = 0.0
    if rate := card.get("memory_bytes_per_s"):
        seconds = (read + max(0, written - card.get("l2_bytes", written))) / rate
    if problem.speed.flop and (rate := card.get("flop_per_s")):
        seconds = max(seconds, problem.speed.flop(sizes) / rate)
    return seconds


def doubt(seconds: float, least: float) -> str:
    """Why a time cannot be; empty when it can."""
    if seconds >= least:
        return ""
    return f"{seconds:.3g} s is less than the {least:.3g} s that this card needs to move the data and to compute at all"


def second_clock(runs: Mapping[str, Sequence[RunResult]]) -> str:
    """What the host's clock sees beyond the events' must be the same for all sides; a sentence when it is not.

    It runs from before the flush until the whole device is idle, so work that escapes the events does not escape it.
    """
    excess = {}
    for side, results in runs.items():
        both = [(r.host_seconds, r.seconds) for r in results if r.host_seconds is not None]
        if both:
            excess[side] = float(np.median([host - events for host, events in both]))
    trusted = [v for side, v in excess.items() if side != "submission"]
    if "submission" not in excess or not trusted:
        return ""
    relative, absolute = SECOND_CLOCK
    taken = float(np.median([r.seconds for r in runs["submission"]]))
    if excess["submission"] - max(trusted) <= max(relative * taken, absolute):
        return ""
    more = excess["submission"] - max(trusted)
    return f"the host's clock sees {more * 1e6:.0f} us of the submission that the device's events do not"


def comparable(results: Sequence[RunResult]) -> bool:
    """The card ran at one speed for all runs of a round, as far as it says."""
    clocks = [r.card.sm_mhz for r in results if r.card]
    return not clocks or max(clocks) <= (1 + CLOCK_SPREAD) * min(clocks)


def card_notes(states: Sequence[CardState]) -> list[str]:
    """What the card said while it was timed."""
    notes = []
    slowed = {why: sum(why in s.slowed for s in states) for s in states for why in s.slowed}
    for why, times in sorted(slowed.items()):
        notes.append(f"the card was slowed down ({why}) in {times} of {len(states)} timed runs")
    if most := max((s.strangers for s in states), default=0):
        notes.append(f"{most} other process{'es' if most > 1 else ''} had the card open while it was timed")
    return notes


def own_noise(seconds: Mapping[str, np.ndarray]) -> str:
    """The submission's times scatter far more than the trusted sides' in the same rounds; a sentence if so."""
    spread = {side: float(np.subtract(*np.quantile(t, [0.75, 0.25])) / np.median(t)) for side, t in seconds.items()}
    usual = max((v for side, v in spread.items() if side != "submission"), default=0.0)
    if spread["submission"] <= max(LEAST_NOISE, OWN_NOISE * usual):
        return ""
    return f"the submission's own times scatter by {spread['submission']:.0%}, the trusted sides' by {usual:.0%}"
