"""The timing protocol: interleaved rounds, fresh content, every output verified; the rounds vote, the estimate settles ties.

A ratio is only ever taken between runs of one round, so that drift of the clock or of the machine cancels. A stored
time is never a party to it, with one exception: on a device that models time, a trusted program takes the same time
whenever it is asked, and is asked once. All else is the same code for measured and for modelled times.

`rounds` runs, `statistics` and `decision` judge, `guard` tells what speaks against a time, `sizing` how large a size is.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from grader.devices import Device
from grader.evidence import Side, Timing
from grader.measure import guard
from grader.measure.decision import Decision, decide
from grader.measure.rounds import Rounds, Stopped, Take
from grader.measure.sizing import timed_case
from grader.measure.statistics import interval
from grader.problems.model import Case, HostFunction, Problem
from grader.program import Program
from grader.rules.speed import share

__all__ = ["MEASURED", "MODELLED", "Decision", "Policy", "compare_sides", "decide", "policy_for", "timed_case"]

OFTEN = 41  # rounds up to which every odd number is looked at
MUCH_FASTER = 0.6  # of the reference's time: a host function's kernels are given, and it only arranges them
FURTHER = 1.15  # from then on, the ratio of one look's rounds to the last one's


@dataclass(frozen=True)
class Policy:
    """How long to go on. Numbers of rounds are odd: then a median is one of the values."""

    least_rounds: int = 13  # the first number at which all rounds together prove anything (`statistics.allowed`)
    most_rounds: int = (
        1001  # one in a hundred gets there: those at the edge of a mark, where the next grading may differ
    )
    most_dropped: int = 10  # rounds that may be left out because the card's clock changed
    repeats: int = 3  # runs of each side in a round
    seconds: float = 30.0  # of wall time; the least number of rounds is run in any case
    close: float = 0.0025  # no closer does the timing look: by so much may a goal be missed (`decide`)
    warm_calls: int = 10  # at least so many runs of each side before the first round
    warm_seconds: float = 0.3  # and for at least so long
    exact: bool = False  # the device's times have no noise
    live_draws: int = 3  # inputs that take turns where a recording holds for certain inputs only

    @property
    def looks(self) -> list[int]:
        """The numbers of rounds after which the timing may end: each look has a chance to err, so late ones are rare."""
        looks = list(range(self.least_rounds, min(self.most_rounds, OFTEN) + 1, 2))
        while looks[-1] < self.most_rounds:
            further = round(looks[-1] * FURTHER)
            looks.append(min(further + 1 - further % 2, self.most_rounds))
        return looks


MEASURED = Policy()
MODELLED = Policy(least_rounds=1, most_rounds=1, repeats=1, warm_calls=0, warm_seconds=0.0, exact=True, live_draws=1)


def policy_for(device: Device) -> Policy:
    """The protocol that suits a device."""
    return MODELLED if device.kind == "modelled" else MEASURED


def compare_sides(
    device: Device,
    programs: Mapping[str, Program],
    problem: Problem,
    case: Case,
    rng: np.random.Generator,
    policy: Policy | None = None,
    known: Mapping[str, Side] | None = None,
    takes: Sequence[Take] = (),
    now: Callable[[], float] = time.monotonic,
) -> Timing:
    """Time "submission" against "baseline" and "reference".

    known: sides whose modelled time is known already. takes: as in `Rounds`. Raises RuntimeError when a trusted side fails.
    """
    policy = policy or policy_for(device)
    rounds = Rounds(device, programs, problem, case, rng, known or {}, policy.repeats, policy.most_dropped, takes)
    try:
        decision = _run(rounds, problem, policy, now)
    except Stopped as stop:
        if stop.side != "submission":
            raise RuntimeError(f"{stop.side} of {problem.name}: {stop.wrong or stop.fault}") from None
        said = {"wrong": stop.wrong, "fault": stop.fault}
        return Timing(rounds.device_name, device.kind, case, {}, 0.0, (0.0, 0.0), 0.0, 0, **said)
    baseline, own, reference = (np.median(rounds.times(s), axis=1) for s in ("baseline", "submission", "reference"))
    ratios = baseline / own
    low, high = interval(ratios)
    ambiguous, to_reference = bool(decision.open.any()), float(np.median(own / reference))
    return Timing(
        device=rounds.device_name,
        kind=device.kind,
        case=case,
        sides=rounds.sides(),
        speedup=float(np.median(ratios)),
        interval=(float(low), float(high)),
        to_reference=to_reference,
        rounds=len(rounds),
        fast=bool(decision.reached[0]),
        share=float(share(decision.reached)),
        shown=float(np.median(baseline / reference)) >= problem.speed.bar,
        ambiguous=ambiguous,
        doubt=guard.doubt(float(np.median(own)), guard.floor(problem, case.sizes, device.describe())),
        flags=tuple(_flags(rounds, ambiguous, problem, to_reference)),
        dropped=rounds.dropped,
    )


def _run(rounds: Rounds, problem: Problem, policy: Policy, now: Callable[[], float]) -> Decision:
    start = now()
    while rounds.warmed < policy.warm_calls or now() - start < policy.warm_seconds:
        rounds.warm()
    while True:
        rounds.next()
        late = now() - start > policy.seconds
        if len(rounds) < policy.least_rounds or not (len(rounds) in policy.looks or late):
            continue
        times = (rounds.times(side) for side in ("baseline", "submission", "reference"))
        decision = decide(*times, problem.speed.bar, policy.close, policy.exact)
        if decision.done or late or len(rounds) >= policy.most_rounds:
            return decision


def _flags(rounds: Rounds, ambiguous: bool, problem: Problem, to_reference: float) -> list[str]:
    """Sentences for the instructor."""
    flags = ["ambiguous: too close to a mark's limit to tell; decided for the student"] if ambiguous else []
    if rounds.device.kind == "measured":
        flags += [
            guard.second_clock(rounds.runs),
            guard.own_noise({side: rounds.times(side) for side in rounds.programs}),
        ]
        flags += guard.card_notes(rounds.states)
    if isinstance(problem.entry, HostFunction) and to_reference < MUCH_FASTER:
        flags.append(f"takes {to_reference:.0%} of the reference's time: are the kernels still those that are given?")
    if rounds.dropped:
        flags.append(f"{rounds.dropped} rounds were left out, because the card changed its clock within them")
    return [f for f in flags if f]
