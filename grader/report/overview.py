"""What an instructor wants to see of a class: how it went, who is fastest, what to look at."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from grader.verdict import CODES, MEANING

BINS = 10  # of the points


@dataclass(frozen=True)
class Ranked:
    """A line of the ranking: right answers by speed-up over the baseline."""

    rank: int  # equal where the intervals overlap with that of the first of the rank
    record: dict
    low: float  # the interval's ends and the value, in per cent of the width of the picture
    at: float
    high: float


@dataclass(frozen=True)
class Overview:
    """One exercise."""

    exercise: str
    title: str
    records: tuple[dict, ...]
    codes: tuple[tuple[str, str, int], ...]  # (code, meaning, how many), strongest last
    histogram: tuple[tuple[str, int], ...]  # ("70 to 80 %", how many)
    ranking: tuple[Ranked, ...]
    device: str  # on which the ranked times were taken
    kind: str  # "measured" or "modelled"

    @property
    def most(self) -> int:
        """Height of the histogram."""
        return max((n for _, n in self.histogram), default=0)


def overviews(records: Sequence[dict]) -> list[Overview]:
    """One for each exercise and device: times of different cards are not ranked together."""
    groups: dict[tuple[str, str], list[dict]] = {}
    for r in records:
        groups.setdefault((r["exercise"], r["device_name"]), []).append(r)
    return [_overview(group) for _, group in sorted(groups.items())]


def flagged(records: Sequence[dict]) -> list[tuple[dict, list[str]]]:
    """Records that a person should look at, and why."""
    found = []
    for r in records:
        why = list(r.get("flags", ()))
        if r["code"] == "SV":
            why.insert(0, f"held for review: {r['message']}")
        if r["code"] == "IE":
            said = r["message"]
            why.insert(0, said if said.startswith("the grader failed") else f"the grader failed: {said}")
        if why:
            found.append((r, why))
    return found


def _overview(records: list[dict]) -> Overview:
    count = Counter(r["code"] for r in records)
    bins = Counter(min(BINS - 1, int(BINS * r["points"] / r["max_points"])) for r in records if r["max_points"])
    step = 100 // BINS
    histogram = tuple((f"{k * step} to {(k + 1) * step} %", bins[k]) for k in range(BINS))
    timed = [r for r in records if r["speedup"] and r["code"] in ("AC", "SLOW")]
    return Overview(
        exercise=records[0]["exercise"],
        title=records[0]["title"],
        records=tuple(records),
        codes=tuple((c, MEANING[c], count[c]) for c in reversed(CODES) if count[c]),
        histogram=histogram,
        ranking=tuple(_ranking(timed)),
        device=records[0]["device_name"],
        kind=timed[0]["speedup"]["kind"] if timed else "",
    )


def _ranking(timed: list[dict]) -> list[Ranked]:
    ordered = sorted(timed, key=lambda r: -r["speedup"]["over_baseline"])
    widest = max((r["speedup"]["interval"][1] for r in ordered), default=1.0)
    ranked: list[Ranked] = []
    for place, r in enumerate(ordered, start=1):
        low, high = r["speedup"]["interval"]
        rank = place
        if ranked:
            first = next(k for k in ranked if k.rank == ranked[-1].rank)
            if high >= first.record["speedup"]["interval"][0]:
                rank = first.rank
        scale = 100 / widest
        ranked.append(Ranked(rank, r, low * scale, r["speedup"]["over_baseline"] * scale, high * scale))
    return ranked
