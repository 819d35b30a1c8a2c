"""A host function that looks at its numbers: recorded anew for each set of inputs, and what can be checked then.

Its process knew the inputs, so it may have computed the answer by itself. Two things tell. Every size is recorded for
other inputs too, in a process that does not know the first: bytes of the host's own that are not the same are made of
the inputs. And the recording is played with the other inputs: what kernels compute follows them.
"""

from collections.abc import Sequence

import numpy as np

from grader.bench import Bench
from grader.devices import Device, Run
from grader.evidence import Arrays, Built, Draw, RunResult, Swap
from grader.problems.model import Problem
from grader.program import Copy, HostWrite, Program
from grader.rules.compare import bound
from grader.submission import Cell

MOST_FAULTS = 3  # recordings that fail with other inputs, until no more are tried: each may take seconds
_NOT_TRIED = "not tried, because others failed"


def programs_for(
    bench: Bench, cells: Sequence[Cell], problem: Problem, built: Built, draws: Sequence[Draw], rng: np.random.Generator
) -> tuple[Built, list[Program], tuple[Swap, ...]]:
    """The program of each draw, what is known of the submission then, and what exchanging the inputs showed.

    Where one recording holds for all inputs it is there already. With an error in `Built` there are no programs.
    """
    if not built.live:
        return built, [built.programs[draw.case.name] for draw in draws], ()
    others = [Draw(draw.case, problem.inputs(rng, draw.case.sizes)) for draw in draws]
    built, theirs = bench.record_for(cells, problem, built, others)
    if built.error:
        return built, [], ()
    built, programs = bench.record_for(cells, problem, built, draws)
    if built.error:
        return built, [], ()
    return built, programs, swap(bench.device, problem, draws, programs, others, theirs)


def swap(
    device: Device,
    problem: Problem,
    draws: Sequence[Draw],
    programs: Sequence[Program],
    others: Sequence[Draw],
    theirs: Sequence[Program],
) -> tuple[Swap, ...]:
    """Compare each draw's program with that of other inputs, and play it with these."""
    results = _replay_all(device, [Run(p, o.inputs) for p, o in zip(programs, others, strict=True)])
    found = []
    for draw, program, other, their, result in zip(draws, programs, others, theirs, results, strict=True):
        of_results = sum(b.nbytes for b in program.buffers if b.role in ("output", "inout"))
        hosts = made_of_inputs(program, their)
        same, size = _unmoved(problem, draw, other.inputs, {} if isinstance(result, str) else result.outputs)
        found.append(Swap(draw.case, hosts, of_results, same, size, result if isinstance(result, str) else ""))
    return tuple(found)


def made_of_inputs(program: Program, other: Program) -> int:
    """Bytes of the host's own, written by it or copied from arrays of its own, that the other program does not have."""
    known = set(other.blobs)
    own = [op.blob for op in program.ops if isinstance(op, HostWrite | Copy) and op.blob is not None]
    return sum(len(program.blobs[blob]) for blob in own if program.blobs[blob] not in known)


def _replay_all(device: Device, runs: list[Run]) -> list[RunResult | str]:
    """Every run, or why it failed; a device stops after one that faults."""
    results: list[RunResult | str] = []
    faults = 0
    while len(results) < len(runs) and faults < MOST_FAULTS:
        for result in device.replay(runs[len(results) :]):
            faults += bool(result.fault)
            results.append(result.fault.message if result.fault else result)
    return results + [_NOT_TRIED] * (len(runs) - len(results))


def _unmoved(problem: Problem, draw: Draw, other: Arrays, outputs: Arrays) -> tuple[int, int]:
    """(elements that are the answer to the draw's inputs, and not to the others; elements that would show it)."""
    before, after = (problem.reference(inputs, draw.case.sizes) for inputs in (draw.inputs, other))
    scales = problem.tolerance.scale(draw.inputs) if problem.tolerance.scale else {}
    same = size = 0
    for name, want in before.items():
        limit = bound(want, problem.tolerance.relative, problem.tolerance.absolute, scales.get(name))
        differs = np.abs(after[name] - want) > 2 * limit
        size += int(differs.sum())
        if name in outputs:
            with np.errstate(invalid="ignore"):
                stays = np.abs(outputs[name].astype(np.float64) - want) <= limit
            same += int((differs & stays).sum())
    return same, size
