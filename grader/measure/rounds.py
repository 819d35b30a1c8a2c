"""Rounds of timed runs: the sides in random order, new content for every repeat, every output verified."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from grader.devices import Device, Run
from grader.evidence import Arrays, CardState, Fault, RunResult, Side
from grader.measure import guard
from grader.problems.model import Case, Problem
from grader.program import Program
from grader.rules.compare import compare

POISONS = (0xCB, 0x5A, 0x3C, 0xE7)
Take = tuple[Arrays, Program]  # inputs, and the submission's program for them


class Stopped(Exception):
    """A side faulted or gave a wrong output; the timing ends here."""

    def __init__(self, side: str, fault: Fault | None, wrong: str):
        super().__init__(side)
        self.side, self.fault, self.wrong = side, fault, wrong


def orders(rng: np.random.Generator, sides: Sequence[str], repeats: int) -> list[list[str]]:
    """Who comes when in each repeat of a round: at random, but everybody as often in every place.

    A random order, turned round by another step in each repeat (a Latin square): what it costs to come first, or after
    somebody, is the same for all.
    """
    order = [str(s) for s in rng.permutation(sides)]
    turns = [int(t) % len(order) for t in rng.permutation(repeats)]
    return [order[t:] + order[:t] for t in turns]


@dataclass
class Rounds:
    """All rounds of one timing. `known`: sides whose time does not change and that are not run again.

    takes: where the submission's recording holds for certain inputs only, these, with their programs. They take turns
    instead of new content; a recording is data, which cannot gain from content that comes back.
    """

    device: Device
    programs: Mapping[str, Program]
    problem: Problem
    case: Case
    rng: np.random.Generator
    known: Mapping[str, Side]
    repeats: int
    most_dropped: int
    takes: Sequence[Take] = ()
    warmed: int = 0
    dropped: int = 0
    device_name: str = ""
    states: list[CardState] = field(default_factory=list)
    runs: dict[str, list[RunResult]] = field(default_factory=dict)  # those that count; without their outputs
    _drawn: int = 0
    _seconds: dict[str, list[list[float]]] = field(default_factory=dict)  # side -> round -> place

    def __len__(self) -> int:
        return len(self._seconds.get("submission", ()))

    def warm(self) -> None:
        """One untimed run of each side; verified all the same."""
        self._run([(side, 0) for side in self._asked()], timed=False)
        self.warmed += 1

    def next(self) -> None:
        """One round. It is dropped when the card changed its clock meanwhile, `most_dropped` times at most."""
        plan = [(side, k) for k, order in enumerate(orders(self.rng, self._asked(), self.repeats)) for side in order]
        results = self._run(plan, timed=True)
        self.states += [r.card for r in results if r.card]
        if not guard.comparable(results) and self.dropped < self.most_dropped:
            self.dropped += 1
            return
        sides = self._asked()
        by_place = sorted(range(len(plan)), key=lambda i: i % len(sides))
        for side in sides:
            own = [results[i] for i in by_place if plan[i][0] == side]
            self._seconds.setdefault(side, []).append([r.seconds for r in own])
            self.runs.setdefault(side, []).extend(own)

    def times(self, side: str) -> np.ndarray:
        """Seconds of a side's runs [rounds, places]: first the run that came first in its repeat, then second, third."""
        if side in self._seconds:
            return np.asarray(self._seconds[side])
        return np.full((len(self), 1), self.known[side].seconds)

    def sides(self) -> dict[str, Side]:
        """The times of every side."""
        own = {
            side: Side(float(np.median(rounds)), self.runs[side][-1].counters, np.size(rounds))
            for side, rounds in self._seconds.items()
        }
        return {side: own.get(side) or self.known[side] for side in self.programs}

    def _asked(self) -> list[str]:
        return [side for side in self.programs if side not in self.known]

    def _next_take(self) -> Take:
        """New inputs and the submission's program."""
        if not self.takes:
            return self.problem.inputs(self.rng, self.case.sizes), self.programs["submission"]
        self._drawn += 1
        return self.takes[(self._drawn - 1) % len(self.takes)]

    def _answer(self, inputs: Arrays) -> Arrays:
        """The right outputs, as they lie in memory when they come back: each is compared with those of three sides."""
        answer = self.problem.reference(inputs, self.case.sizes)
        return {name: np.ascontiguousarray(values) for name, values in answer.items()}

    def _run(self, plan: list[tuple[str, int]], timed: bool) -> list[RunResult]:
        repeats = sorted({k for _, k in plan})
        own = {k: self._next_take() for k in repeats}
        inputs = {k: take[0] for k, take in own.items()}
        expected = {k: self._answer(inputs[k]) for k in repeats}
        poison = int(self.rng.choice(POISONS))
        programs = {(side, k): own[k][1] if side == "submission" else self.programs[side] for side, k in plan}
        runs = [Run(programs[side, k], inputs[k], poison, timed=timed) for side, k in plan]
        results = self.device.replay(runs)
        kept = []
        for (side, k), result in zip(plan, results, strict=False):
            self.device_name = result.device
            if result.fault:
                raise Stopped(side, result.fault, "")
            if result.overrun or result.changed:
                touched = ", ".join((*result.overrun, *result.changed))
                raise Stopped(side, None, f"memory that is not the output was written, at {touched}")
            if d := compare(expected[k], result.outputs, self.problem.tolerance, inputs[k], poison):
                raise Stopped(side, None, d.sentence())
            kept.append(result.without_outputs())
        if len(kept) != len(plan):
            raise RuntimeError(f"{len(plan)} runs were asked for and {len(kept)} came back, without a fault")
        return kept
