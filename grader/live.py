"""A host function that looks at its numbers: recorded anew for each set of inputs, and what can be checked then.

Its process knew the inputs, so it may have computed the answer by itself. Three things tell. Every size is recorded for
other inputs too, in a process that does not know the first: bytes of the host's own that are not the same are made of
the inputs. Kernels that no other inputs lead to may hold the answer. And the recording is played with the other
inputs: what kernels compute follows them.
"""

import re
from collections.abc import Sequence, Set
from dataclasses import replace
from itertools import zip_longest

import numpy as np

from grader.bench import Bench
from grader.devices import Device, Run
from grader.evidence import CHOICE, Arrays, Built, Draw, RunResult, Swap
from grader.problems.model import Problem
from grader.program import Copy, HostWrite, Launch, Program, work_of
from grader.rules.compare import bound
from grader.submission import Cell

MOST_FAULTS = 3  # recordings that fail with other inputs, until no more are tried: each may take seconds
_WORD = 8  # bytes of a parameter
_NUMBER = re.compile(rb"\b\d\w*")  # in PTX: 12, 0x1F, 0f3F800000; registers begin with a letter
_COUNTED = r"(?<=B)\d+v\d+(?=B)"  # in the names of numba's kernels, as they are compiled: their order may be the data's
_NOT_TRIED = "not tried, because others failed"


def programs_for(
    bench: Bench, cells: Sequence[Cell], problem: Problem, built: Built, draws: Sequence[Draw], rng: np.random.Generator
) -> tuple[Built, list[Program], tuple[Swap, ...]]:
    """The program of each draw, what is known of the submission then, and what exchanging the inputs showed.

    Where one recording holds for all inputs it is there already. With an error in `Built` there are no programs.
    """
    if not built.live:
        return built, [built.programs[draw.case.name] for draw in draws], ()
    known = {ptx for _, program in built.recorded for ptx in _modules(program)}
    others = [Draw(draw.case, problem.inputs(rng, draw.case.sizes)) for draw in draws]
    built, theirs = bench.record_for(cells, problem, built, others)
    if built.error:
        return built, [], ()
    built, programs = bench.record_for(cells, problem, built, draws)
    if built.error:
        return built, [], ()
    return built, programs, swap(bench.device, problem, draws, programs, others, theirs, known)


def swap(
    device: Device,
    problem: Problem,
    draws: Sequence[Draw],
    programs: Sequence[Program],
    others: Sequence[Draw],
    theirs: Sequence[Program],
    known: Set[bytes] = frozenset(),
) -> tuple[Swap, ...]:
    """Compare each draw's program with that of other inputs, and play it with these.

    known: modules of PTX that were recorded before the draws, as of `_modules`.
    """
    known = known | {ptx for program in theirs for ptx in _modules(program)}
    results = _replay_all(device, [Run(p, o.inputs) for p, o in zip(programs, others, strict=True)])
    found = []
    for draw, program, other, their, result in zip(draws, programs, others, theirs, results, strict=True):
        of_results = sum(b.nbytes for b in program.buffers if b.role in ("output", "inout"))
        hosts = made_of_inputs(program, their)
        same, size = _unmoved(problem, draw, other.inputs, {} if isinstance(result, str) else result.outputs)
        fault = result if isinstance(result, str) else ""
        fresh = sum(ptx not in known for ptx in _modules(program))
        found.append(Swap(draw.case, hosts, of_results, same, size, fault, fresh))
    return tuple(found)


def made_of_inputs(program: Program, other: Program) -> int:
    """Bytes of the host's own that the other program does not have.

    They lie in what it writes or copies from arrays of its own, in memory that was there before the call, and in
    parameters that none of the other's kernels gets. Numbers in the kernels' code, which kernel gets which parameter, and
    which operations there are can carry an answer as well; of these it takes more than `CHOICE` bytes to be an answer and
    not a choice.
    """
    known = set(other.blobs)
    own = [op.blob for op in program.ops if isinstance(op, HostWrite | Copy) and op.blob is not None]
    own += [buffer.initial for buffer in program.buffers if buffer.initial is not None]
    carried = sum(len(program.blobs[blob]) for blob in own if program.blobs[blob] not in known)
    asked, theirs = _asked(program), _asked(other)
    new = _WORD * len(_parameters(asked) - _parameters(theirs))
    return carried + max(new, _in_code(program, other) + _chosen(asked, theirs) - CHOICE)


def _parameters(asked: list) -> set[bytes]:
    """Every word that is a parameter of some kernel, but for addresses."""
    return {word for work in asked if isinstance(work, Launch) for word in _words(work.args)}


def _words(args: bytes) -> list[bytes]:
    return [args[k : k + _WORD] for k in range(0, len(args), _WORD)]


def _in_code(program: Program, other: Program) -> int:
    """Bytes of the numbers in kernels that the other program does not have."""
    known = set(_modules(other))
    return sum(8 * len(_NUMBER.findall(ptx)) for ptx in _modules(program) if ptx not in known)


def _chosen(asked: list, theirs: list) -> int:
    """Bytes of parameters, places and order: of operations that the other program does not have."""
    known, chosen, nth = set(theirs), 0, 0
    launches = [_words(work.args) for work in theirs if isinstance(work, Launch)] or [[]]
    for work in asked:
        launched = isinstance(work, Launch)
        if work not in known:
            chosen += _WORD
            if launched:
                own, like = _words(work.args), launches[min(nth, len(launches) - 1)]
                chosen += _WORD * sum(a != b for a, b in zip_longest(own, like[: len(own)]))
        nth += launched
    return chosen


def _modules(program: Program) -> list[bytes]:
    """Its PTX, whatever was compiled before it."""
    return [re.sub(_COUNTED.encode(), b"", ptx) for ptx in program.modules]


def _asked(program: Program) -> list:
    """Its operations, with the nodes of graphs in place of these; of kernels the name, whatever was compiled before."""
    asked = [work for op in program.ops for work in ([*work_of(op)] or [op])]
    names = {work.kernel: re.sub(_COUNTED, "", work.kernel) for work in asked if isinstance(work, Launch)}
    return [replace(work, module=0, kernel=names[work.kernel]) if isinstance(work, Launch) else work for work in asked]


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
