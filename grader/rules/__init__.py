"""What an answer is judged by: small functions of the evidence. A rule's docstring is what the student reads."""

from grader.rules.asynchrony import copies_ahead, copies_asynchronously, waits_at_mbarriers
from grader.rules.check import Check, Rule, judge
from grader.rules.correctness import (
    as_launched,
    barriers_met,
    compiles,
    finishes,
    in_bounds,
    initialised,
    inputs_kept,
    race_free,
    repeatable,
    right_values,
)
from grader.rules.speed import coalesced, fast_enough, few_bytes, no_bank_conflicts

__all__ = [
    "CLEAN",
    "Check",
    "Rule",
    "coalesced",
    "copies_ahead",
    "copies_asynchronously",
    "correct",
    "fast",
    "few_bytes",
    "judge",
    "no_bank_conflicts",
    "structure",
    "waits_at_mbarriers",
]

_BUILT = ("compiles",)
_ENDED = ("compiles", "as_launched", "finishes", "in_bounds")
CLEAN = (*_ENDED, "initialised", "race_free", "barriers_met", "inputs_kept", "right_values", "repeatable")


def correct(values: float, hazards: float) -> tuple[Rule, ...]:
    """The rules that every exercise starts with; the `hazards` points are paid when no sanitizer complains at all."""
    clean = ("right_values", "in_bounds", "initialised", "race_free", "barriers_met")
    return (
        Rule(compiles, code="CE"),
        Rule(as_launched, code="SV", needs=_BUILT),
        Rule(finishes, code="RTE", needs=_BUILT),
        Rule(in_bounds, 0, "RTE", _BUILT),
        Rule(initialised, 0, "RTE", _BUILT),
        Rule(race_free, hazards, "RTE", _BUILT, clean),
        Rule(barriers_met, 0, "RTE", _BUILT),
        Rule(inputs_kept, 0, "WA", _ENDED),
        Rule(right_values, values, "WA", _ENDED),
        Rule(repeatable, 0, "WA", (*_ENDED, "right_values")),
    )


def fast(points: float, hint: str) -> Rule:
    """The rule for speed: SLOW below the exercise's bar, then steps up to the reference."""
    return Rule(fast_enough, points, "SLOW", CLEAN, CLEAN, {"hint": hint})


def structure(function, points: float, **options) -> Rule:
    """A rule on counters: costs points when it fails, decides no verdict."""
    return Rule(function, points, "", CLEAN, CLEAN, options)
