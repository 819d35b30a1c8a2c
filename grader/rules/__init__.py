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
from grader.rules.host import (
    Given,
    allocates_nothing_between,
    as_given,
    copies_pinned_memory,
    few_host_waits,
    few_launches,
    launches_as_graph,
    no_page_faults,
    overlaps,
    spreads_over_streams,
    takes_turns,
    waits_for_results,
    works_on_device,
)
from grader.rules.speed import coalesced, fast_enough, few_barriers, few_bytes, no_bank_conflicts

__all__ = [
    "CLEAN",
    "Check",
    "Given",
    "Rule",
    "allocates_nothing_between",
    "as_given",
    "coalesced",
    "copies_ahead",
    "copies_asynchronously",
    "copies_pinned_memory",
    "correct",
    "correct_host",
    "fast",
    "few_barriers",
    "few_bytes",
    "few_host_waits",
    "few_launches",
    "judge",
    "launches_as_graph",
    "no_bank_conflicts",
    "no_page_faults",
    "overlaps",
    "spreads_over_streams",
    "structure",
    "takes_turns",
    "waits_at_mbarriers",
]

_BUILT = ("compiles",)
# A rule waits for those of these that its exercise has.
_ENDED = ("compiles", "as_launched", "works_on_device", "finishes", "in_bounds")
CLEAN = (
    *(*_ENDED, "initialised", "race_free", "barriers_met"),
    *("inputs_kept", "right_values", "repeatable", "waits_for_results", "as_given", "takes_turns"),
)


def correct(values: float, hazards: float) -> tuple[Rule, ...]:
    """The rules that every exercise with a kernel starts with; the `hazards` points are paid when no sanitizer complains
    at all."""
    return (Rule(compiles, code="CE"), Rule(as_launched, code="SV", needs=_BUILT), *_right(values, hazards))


def correct_host(values: float, hazards: float, host_finishes: bool = False) -> tuple[Rule, ...]:
    """The same for a host function; the `values` points are paid when they are there at its return.

    host_finishes: the host may compute the results from what kernels left (a sum of partial sums).
    """
    return (
        Rule(compiles, code="CE"),
        Rule(works_on_device, code="WA", needs=_BUILT, options={"host_finishes": host_finishes}),
        *_right(values, hazards),
        Rule(waits_for_results, 0, "WA", _ENDED),
    )


def _right(values: float, hazards: float) -> tuple[Rule, ...]:
    clean = ("right_values", "in_bounds", "initialised", "race_free", "barriers_met", "waits_for_results")
    return (
        Rule(finishes, code="RTE", needs=_BUILT),
        Rule(in_bounds, 0, "RTE", _BUILT),
        Rule(initialised, 0, "RTE", _BUILT),
        Rule(race_free, hazards, "RTE", _BUILT, clean),
        Rule(barriers_met, 0, "RTE", _BUILT),
        Rule(inputs_kept, 0, "WA", _ENDED),
        Rule(right_values, values, "WA", _ENDED, ("waits_for_results",)),
        Rule(repeatable, 0, "WA", (*_ENDED, "right_values")),
    )


def fast(points: float, hint: str) -> Rule:
    """The rule for speed: SLOW below the exercise's bar, then steps up to the reference."""
    return Rule(fast_enough, points, "SLOW", CLEAN, CLEAN, {"hint": hint})


def structure(function, points: float, code: str = "", pays_with: tuple[str, ...] = (), **options) -> Rule:
    """A rule on counters or on the recording: costs points when it fails, and decides no verdict unless it has a code.

    pays_with: other rules without which it means nothing.
    """
    return Rule(function, points, code, CLEAN, (*CLEAN, *pays_with), options)
