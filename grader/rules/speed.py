"""Rules on time, and on the counters that explain it."""

import numpy as np

from grader.evidence import Evidence, Timing
from grader.rules.check import Check, failed, passed, unknown

FULL_MARKS_AT = 1.2  # times the reference's time
STEPS = 4


def fast_enough(e: Evidence, hint: str = "") -> Check:
    """It is faster than the baseline."""
    t = e.timing
    if t is None:
        return unknown("no time was taken")
    if t.doubt:
        return Check(None, f"the time is not believed: {t.doubt}", code="IE")
    said = f"{t.speedup:.2f} x the baseline's speed, {t.kind} ({times(t)}; {t.case.name})"
    if t.interval[0] != t.interval[1]:
        said += f", 95 % interval {t.interval[0]:.2f} to {t.interval[1]:.2f}"
    if not t.shown:
        return unknown(f"{said}; on this card the reference is no faster, so speed is not judged here")
    if not t.fast:
        return failed(f"{said}; {e.problem.speed.bar:g} x is asked", hint)
    if t.ambiguous:
        said += "; too close to a mark's limit to tell, decided in your favour"
    return passed(said, share=t.share)


def goals(reference, bar: float) -> np.ndarray:
    """Speed-ups over the baseline at which marks change, for the reference's speed-ups; a new last axis.

    First the bar below which a right answer is SLOW, then STEPS equal steps from the baseline's speed up to that of
    FULL_MARKS_AT times the reference's time.
    """
    full = np.asarray(reference, np.float64)[..., None] / FULL_MARKS_AT
    steps = 1.0 + (full - 1.0) * np.arange(1, STEPS + 1) / STEPS
    return np.concatenate([np.full_like(full, bar), steps], axis=-1)


def share(reached) -> np.ndarray:
    """Share of the points for the goals that were reached (last axis, as `goals` has them)."""
    steps = np.asarray(reached)[..., 1:]
    return (steps * np.arange(1, STEPS + 1)).max(axis=-1) / STEPS


def times(t: Timing) -> str:
    """ "you 12.1 us, baseline 80.3 us, reference 11.9 us"."""
    names = {"submission": "you", "baseline": "baseline", "reference": "reference"}
    return ", ".join(f"{label} {duration(t.sides[side].seconds)}" for side, label in names.items() if side in t.sides)


def duration(seconds: float) -> str:
    """A time in the unit that suits it: "12.1 us"."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def coalesced(e: Evidence, sectors: float = 4.5) -> Check:
    """Global memory is read and written in whole sectors.

    What is fetched in vain is held against what the reference fetches at all, too: accesses for show, however well they
    are placed, make up for none that is not.
    """
    hint = "Neighbouring threads (threadIdx.x and x + 1) should touch neighbouring addresses."
    c, t = _counters(e), e.timing
    best = t.sides["reference"].counters if t and "reference" in t.sides else {}
    kinds = [what for what in ("load", "store", "atomic") if c.get(f"global_{what}_requests")]
    if not kinds:
        return unknown("this device does not count sectors")
    moved = {what: c[f"global_{what}_sectors"] for what in kinds}
    found = {what: n / c[f"global_{what}_requests"] for what, n in moved.items()}
    said = ", ".join(f"{v:.1f} sectors per {k} request" for k, v in found.items())
    if max(found.values()) > sectors:
        return failed(f"{said}; at most {sectors:g} is asked", hint)
    vain = sum(n - c.get(f"global_{what}_ideal_sectors", n) for what, n in moved.items())
    needed = sum(best.get(f"global_{what}_sectors", 0) for what in ("load", "store", "atomic"))
    if needed and vain > (sectors / 4 - 1) * needed:
        return failed(
            f"{said}, but {vain:.0f} sectors more than needed, where the reference moves {needed:.0f} in all", hint
        )
    return passed(f"{said}; 4 is the least for 32 float32")


def no_bank_conflicts(e: Evidence, ways: float = 1.1) -> Check:
    """Shared memory is used without bank conflicts."""
    c = _counters(e)
    requests = c.get("shared_requests")
    if requests is None:
        return unknown("this device does not count bank conflicts")
    if not requests:
        return failed("shared memory is not used", "Stage a tile in cuda.shared.array and read it back turned round.")
    got = c["shared_wavefronts"] / c["shared_ideal_wavefronts"]
    if got <= ways:
        return passed(f"{got:.2f} ways per access to shared memory")
    return failed(
        f"{got:.1f} ways per access to shared memory; at most {ways:g} is asked",
        "A column of a 32-wide tile lies in one bank: what if each row were one element longer?",
    )


TILE_IT = "Keep a tile of each input in shared memory: every element loaded once is used by a whole row."


def few_bytes(e: Evidence, times_reference: float = 1.3, hint: str = TILE_IT) -> Check:
    """Global memory is not read more often than needed."""
    c, t = _counters(e), e.timing
    ours = c.get("global_load_sectors", 0) + c.get("global_atomic_sectors", 0)  # an atomic update reads as well
    best = t.sides["reference"].counters.get("global_load_sectors") if t and "reference" in t.sides else None
    if not ours or not best:
        return unknown("this device does not count sectors")
    said = f"{ours * 32 / 1e6:.2f} MB read; the reference reads {best * 32 / 1e6:.2f} MB"
    if ours <= times_reference * best:
        return passed(said)
    return failed(said, hint)


def few_barriers(e: Evidence, times_reference: float = 1.1, hint: str = "") -> Check:
    """The warps of a block wait for each other no more often than needed."""
    c, t = _counters(e), e.timing
    best = _meetings(t.sides["reference"].counters) if t and "reference" in t.sides else 0
    if not c or not best:
        return unknown("this device does not count barriers")
    said = f"a warp comes to a barrier {_meetings(c) / best:.2f} times as often as in the reference"
    return passed(said) if _meetings(c) <= times_reference * best else failed(said, hint)


def _meetings(counters: dict[str, float]) -> float:
    return counters.get("block_barriers", 0) + counters.get("mbarrier_waits", 0)


def _counters(e: Evidence) -> dict[str, float]:
    if e.timing is None or "submission" not in e.timing.sides:
        return {}
    return e.timing.sides["submission"].counters
