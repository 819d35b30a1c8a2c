"""Grading, on one screen: cells -> programs -> replays -> evidence -> verdict. Start reading here."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from grader import measure
from grader.bench import Bench
from grader.devices import Run
from grader.evidence import Built, CaseRun, Evidence, RunResult
from grader.problems.model import Case, Problem
from grader.submission import Cell
from grader.verdict import Verdict, decide

POISON, OTHER_POISON = 0xCB, 0x5A


def grade(cells: Sequence[Cell], problem: Problem, bench: Bench, seed: int) -> Verdict:
    """Judge one answer to one exercise. The same seed on the same device gives the same verdict.

    Whatever it raises (DeviceLost, SandboxError, ...) is a failure of the grader, never of the student.
    """
    rng = np.random.default_rng(seed)
    cases = (*problem.cases, *problem.secret(rng))
    timed = [bench.timed_case(problem)] if problem.speed else []
    large = [problem.speed.modelled] if problem.speed else []  # where hazards are looked for, too: cheap enough

    # 1. The student's Python runs once, locked in, and leaves programs behind; it sees no input and no expected value.
    built = bench.record(cells, problem, _distinct([*cases, *large, *timed]))
    if built.error:
        return decide(Evidence(problem, built))

    # 2. The programs are replayed with inputs that the student's process never saw, twice, under the sanitizers.
    runs = check_values(bench, built, problem, cases, large, rng)
    verdict = decide(Evidence(problem, built, runs))
    if verdict.code != "AC" or not timed:
        return verdict

    # 3. Only what is right is timed, against the baseline and the reference, every output verified again.
    programs = {"submission": built.programs[timed[0].name], **bench.trusted(problem, timed[0])}
    known = bench.known_times(problem)
    timing = measure.compare_sides(bench.device, programs, problem, timed[0], rng, known=known)
    bench.learn_times(problem, timing)

    # 4. Rules look at the evidence; the strongest failure is the code.
    return decide(Evidence(problem, built, runs, timing))


def check_values(
    bench: Bench, built: Built, problem: Problem, cases: Sequence[Case], large: Sequence[Case], rng: np.random.Generator
) -> tuple[CaseRun, ...]:
    """Replay every case with fresh inputs and two poisons: once under the sanitizers, once on the grading device.

    The large ones under the sanitizers only: they are run again when they are timed.
    """
    every = [*cases, *large]
    inputs = [problem.inputs(rng, case.sizes) for case in every]
    programs = [built.programs[case.name] for case in every]
    pairs = list(zip(programs, inputs, strict=True))
    first = [Run(p, i, POISON, sanitize=True) for p, i in pairs]
    second = [Run(p, i, OTHER_POISON) for p, i in pairs[: len(cases)]]
    with ThreadPoolExecutor(1) as pool:  # the answers are computed while the runs are under way
        expected = pool.submit(lambda: [problem.reference(i, c.sizes) for i, c in zip(inputs, every, strict=True)])
        watched, plain = _replay(bench, first, second)
    runs = []
    for k, case in enumerate(every):
        results = (*watched[k : k + 1], *plain[k : k + 1])
        if results:
            runs.append(CaseRun(case, inputs[k], expected.result()[k], results))
    return tuple(runs)


def _replay(bench: Bench, watched: list[Run], plain: list[Run]) -> tuple[list[RunResult], list[RunResult]]:
    """What was watched, and what ran plainly after it, unless something faulted before."""
    if bench.watcher is bench.device:  # all in one go
        results = bench.device.replay([*watched, *plain])
        return results[: len(watched)], results[len(watched) :]
    seen = bench.watcher.replay(watched)
    return seen, ([] if any(r.fault for r in seen) else bench.device.replay(plain))


def _distinct(cases: Sequence[Case]) -> list[Case]:
    return list({case.name: case for case in cases}.values())
