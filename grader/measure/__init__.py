"""The timing protocol: interleaved rounds, fresh content, every output verified, the median of per-round ratios.

A ratio is only ever taken between runs of one round, so that drift of the clock or of the machine cancels. A stored
time is never a party to it, with one exception: on a device that models time, a trusted program takes the same time
whenever it is asked, and is asked once.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from grader.devices import Device, Run
from grader.evidence import Fault, Side, Timing
from grader.measure.statistics import interval, settled, straddled
from grader.problems.model import Case, Problem
from grader.program import Program
from grader.rules.compare import compare
from grader.rules.speed import boundaries

POISONS = (0xCB, 0x5A, 0x3C, 0xE7)


@dataclass(frozen=True)
class Policy:
    """How long to go on."""

    least_rounds: int = 11
    most_rounds: int = 41
    repeats: int = 3  # runs of each side in a round
    seconds: float = 30.0  # of wall time; the least number of rounds is run in any case
    close: float = 0.02  # the interval is narrow at +-2 %
    warm_calls: int = 10  # at least so many runs of each side before the first round
    warm_seconds: float = 0.3  # and for at least so long


MEASURED = Policy()
MODELLED = Policy(least_rounds=1, most_rounds=1, repeats=1, warm_calls=0, warm_seconds=0.0)


class Stopped(Exception):
    """A side faulted or gave a wrong output; the timing ends here."""

    def __init__(self, side: str, fault: Fault | None, wrong: str):
        super().__init__(side)
        self.side, self.fault, self.wrong = side, fault, wrong


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
    now: Callable[[], float] = time.monotonic,
) -> Timing:
    """Time "submission" against "baseline" and "reference".

    known: sides whose modelled time is known already. Raises RuntimeError when a trusted side fails.
    """
    policy = policy or policy_for(device)
    rounds = _Rounds(device, programs, problem, case, rng, known or {}, policy.repeats)
    start = now()
    try:
        while rounds.warmed < policy.warm_calls or now() - start < policy.warm_seconds:
            rounds.warm()
        while True:
            rounds.next()
            ratios = rounds.ratios("baseline", "submission")
            span = interval(ratios, rng)
            marks = boundaries(float(np.median(rounds.ratios("baseline", "reference"))), problem.speed.bar)
            done = settled(span, float(np.median(ratios)), marks, policy.close)
            late = len(ratios) >= policy.most_rounds or now() - start > policy.seconds
            if len(ratios) >= policy.least_rounds and (done or late):
                break
    except Stopped as stop:
        if stop.side != "submission":
            raise RuntimeError(f"{stop.side} of {problem.name}: {stop.wrong or stop.fault}") from None
        return Timing(rounds.device_name, device.kind, case, {}, 0.0, (0.0, 0.0), 0.0, 0, False, stop.wrong, stop.fault)
    return Timing(
        device=rounds.device_name,
        kind=device.kind,
        case=case,
        sides=rounds.sides(),
        speedup=float(np.median(ratios)),
        interval=span,
        to_reference=float(np.median(rounds.ratios("submission", "reference"))),
        rounds=len(ratios),
        ambiguous=not done and straddled(span, marks),
    )


@dataclass
class _Rounds:
    device: Device
    programs: Mapping[str, Program]
    problem: Problem
    case: Case
    rng: np.random.Generator
    known: Mapping[str, Side]
    repeats: int
    warmed: int = 0
    device_name: str = ""
    _seconds: dict[str, list[list[float]]] = field(default_factory=dict)  # side -> round -> repeat
    _counters: dict[str, dict] = field(default_factory=dict)

    def warm(self) -> None:
        """One untimed run of each side; verified all the same."""
        self._run([(side, 0) for side in self._asked()], timed=False)
        self.warmed += 1

    def next(self) -> None:
        """One round: the sides in random order, `repeats` runs of each, content that was never used before."""
        order = [str(s) for s in self.rng.permutation(self._asked())]
        plan = [(side, k) for side in order for k in range(self.repeats)]
        got = self._run(plan, timed=True)
        for side in order:
            self._seconds.setdefault(side, []).append([t for s, t in got if s == side])

    def ratios(self, above: str, below: str) -> list[float]:
        """Per round: median time of `above` / median time of `below`."""
        return [a / b for a, b in zip(self._medians(above), self._medians(below), strict=True)]

    def sides(self) -> dict[str, Side]:
        """The times of every side."""
        own = {
            side: Side(float(np.median(np.concatenate(rounds))), self._counters[side], sum(map(len, rounds)))
            for side, rounds in self._seconds.items()
        }
        return {side: own.get(side) or self.known[side] for side in self.programs}

    def _asked(self) -> list[str]:
        return [side for side in self.programs if side not in self.known]

    def _medians(self, side: str) -> list[float]:
        if side in self._seconds:
            return [float(np.median(r)) for r in self._seconds[side]]
        return [self.known[side].seconds] * len(self._seconds["submission"])

    def _run(self, plan: list[tuple[str, int]], timed: bool) -> list[tuple[str, float]]:
        repeats = sorted({k for _, k in plan})
        inputs = {k: self.problem.inputs(self.rng, self.case.sizes) for k in repeats}
        expected = {k: self.problem.reference(inputs[k], self.case.sizes) for k in repeats}
        poison = int(self.rng.choice(POISONS))
        runs = [Run(self.programs[side], inputs[k], poison, timed=timed) for side, k in plan]
        results = self.device.replay(runs)
        for (side, k), result in zip(plan, results, strict=False):
            self.device_name = result.device
            if result.fault:
                raise Stopped(side, result.fault, "")
            if result.overrun or result.changed:
                touched = ", ".join((*result.overrun, *result.changed))
                raise Stopped(side, None, f"memory that is not the output was written, at {touched}")
            if d := compare(expected[k], result.outputs, self.problem.tolerance, inputs[k], poison):
                raise Stopped(side, None, d.sentence())
            self._counters[side] = result.counters
        return [(side, result.seconds) for (side, _), result in zip(plan, results, strict=True)]
