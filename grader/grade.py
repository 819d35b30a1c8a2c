"""Grading, on one screen: cells -> programs -> replays -> evidence -> verdict. Start reading here."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from grader import live, measure
from grader.bench import Bench
from grader.devices import Run
from grader.evidence import CaseRun, Draw, Evidence, RunResult
from grader.problems.model import Case, Problem
from grader.program import Program
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

    # 2. The programs are replayed with inputs that the student's process never saw, twice, under the sanitizers. What
    #    depends on its inputs is asked for again, once these are drawn ("live"), and replayed with other ones too.
    draws = [Draw(case, problem.inputs(rng, case.sizes)) for case in (*cases, *large)]
    built, programs, swaps = live.programs_for(bench, cells, problem, built, draws, rng)
    if built.error:
        return decide(Evidence(problem, built))
    runs, given = check_values(bench, problem, draws, programs, len(cases)), bench.given(problem)
    verdict = decide(Evidence(problem, built, runs, swaps=swaps, given=given))
    if verdict.code != "AC" or not timed:
        return verdict

    # 3. Only what is right is timed, against the baseline and the reference, every output verified again.
    takes = []
    if built.live:
        few = measure.policy_for(bench.device).live_draws
        draws = [Draw(timed[0], problem.inputs(rng, timed[0].sizes)) for _ in range(few)]
        built, programs, more = live.programs_for(bench, cells, problem, built, draws, rng)
        swaps += more
        if built.error:
            return decide(Evidence(problem, built, runs, swaps=swaps, given=given))
        takes = [(draw.inputs, program) for draw, program in zip(draws, programs, strict=True)]
    sides = {"submission": built.programs[timed[0].name], **bench.trusted(problem, timed[0])}
    known = bench.known_times(problem)
    timing = measure.compare_sides(bench.device, sides, problem, timed[0], rng, known=known, takes=takes)
    bench.learn_times(problem, timing)

    # 4. Rules look at the evidence; the strongest failure is the code.
    return decide(Evidence(problem, built, runs, timing, swaps, given))


def check_values(
    bench: Bench, problem: Problem, draws: Sequence[Draw], programs: Sequence[Program], twice: int
) -> tuple[CaseRun, ...]:
    """Replay every draw with two poisons: once under the sanitizers, once on the grading device.

    After the first `twice` come large ones, under the sanitizers only: they are run again when they are timed.
    """
    first = [Run(p, d.inputs, POISON, sanitize=True) for p, d in zip(programs, draws, strict=True)]
    second = [Run(p, d.inputs, OTHER_POISON) for p, d in zip(programs, draws[:twice], strict=False)]
    with ThreadPoolExecutor(1) as pool:  # the answers are computed while the runs are under way
        expected = pool.submit(lambda: [problem.reference(d.inputs, d.case.sizes) for d in draws])
        watched, plain = _replay(bench, first, second)
    runs = []
    for k, draw in enumerate(draws):
        results = (*watched[k : k + 1], *plain[k : k + 1])
        if results:
            runs.append(CaseRun(draw.case, draw.inputs, expected.result()[k], results))
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
