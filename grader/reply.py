"""What is asked of the process that runs student Python, and what is believed of its reply: the trust edge of grading.

Everything in a reply was chosen by the submission. What does not have the form that `grader.jobs.record` gives it is no
recording, and costs that submission its marks; it never raises here.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from grader.evidence import Arrays, BuildError, Built, Early, Finding
from grader.problems.model import Array, Case, HostFunction, Kernel, Problem
from grader.program import Program, ProgramError
from grader.sandbox import VERDICTS, Outcome
from grader.submission import Cell

MOST_EARLY = 20  # early touches of the host that are kept
MAX_LINE = 1 << 24
_SAID = {
    "time": "the Python code of the submission did not end in time: is there an endless loop outside the kernel?",
    "memory": "the submission needs too much memory",
    "violation": "the submission tried what no exercise needs; held for review",
}


def request(
    cells: Sequence[Cell], problem: Problem, cases: Mapping[str, Case], definitions: bool, inputs: Sequence[Arrays] = ()
) -> tuple[dict, list[bytes]]:
    """(request, blobs) for `grader.jobs.record`: a call for each case, by any name, with its inputs if there are any."""
    calls, blobs = [_call(problem, case) | {"name": name} for name, case in cases.items()], []
    for call, arrays in zip(calls, inputs, strict=False):
        call["inputs"] = {name: len(blobs) + k for k, name in enumerate(arrays)}
        blobs += [np.ascontiguousarray(array).tobytes() for array in arrays.values()]
    wanted = [[c.label, c.source] for c in cells]
    return {"cells": wanted, "definitions": definitions, "entry": _entry(problem), "cases": calls}, blobs


def built(outcome: Outcome, problem: Problem, cases: Mapping[str, Case], live: bool) -> Built:
    """What is known of the submission then. live: the inputs were given to it, so that there must be programs."""
    if outcome.status != "ok":
        # An exception that no code of the submission's let through may be the grader's own.
        flags = ("its process failed outside of its own code",) if outcome.status == "error" else ()
        return Built(error=_ended(outcome), output=outcome.output, flags=flags, status=outcome.status)
    try:
        return _checked(outcome, problem, cases, live)
    except ProgramError as e:
        said = f"what the submission's process sent is no recording: {e}"
        return Built(error=BuildError("RTE", said), output=outcome.output)


def devices_of(problem: Problem) -> int:
    """GPUs that an exercise's machine has."""
    return problem.entry.devices if isinstance(problem.entry, HostFunction) else 1


def _entry(problem: Problem) -> dict:
    entry = problem.entry
    kind = "kernel" if isinstance(entry, Kernel) else "function"
    return {"name": entry.name, "kind": kind, "params": [p.name for p in entry.params]}


def _call(problem: Problem, case: Case) -> dict:
    args: list[dict] = []
    entry = problem.entry
    for p in entry.params:
        if isinstance(p, Array):
            shape = list(p.shape(case.sizes))
            args.append({"array": p.name, "dtype": p.dtype, "shape": shape, "role": p.role, "where": p.where})
        else:
            args.append({"scalar": p.name, "dtype": p.dtype, "value": p.value(case.sizes)})
    launch = {}
    if isinstance(entry, Kernel):
        launch = {"grid": list(entry.grid(case.sizes)), "block": list(entry.block(case.sizes))}
    return {"name": case.name, "args": args, "devices": devices_of(problem), **launch}


def _checked(outcome: Outcome, problem: Problem, cases: Mapping[str, Case], live: bool) -> Built:
    """ProgramError when it is no recording."""
    failed, error, reason, parts = _taken_apart(outcome, cases, live)
    if error:
        flag = outcome.header["error"].get("flag")
        return Built({}, error, failed, outcome.output, flags=(str(flag)[:200],) if flag else ())
    if reason and not isinstance(problem.entry, HostFunction):
        raise ProgramError("a kernel is launched, whatever its inputs are: it is not given them")
    if reason:
        return Built({}, None, failed, outcome.output, live=reason, early=_early(outcome.header))
    programs = {}
    for (name, case), (header, blobs) in zip(cases.items(), parts, strict=True):
        programs[name] = Program.from_parts(header, blobs)
        _check_arrays(programs[name], problem, case)
    return Built(programs, None, failed, outcome.output, early=_early(outcome.header))


def _early(header: dict) -> tuple[Early, ...]:
    """What the student's process says of its host; only its own loss if it says too much."""
    found = []
    try:
        for case, f, asked in list(header["early"])[:MOST_EARLY]:
            finding = Finding("racecheck", str(f["message"])[:2000], _line(f["line"]) or None, str(f["file"])[:100])
            found.append(Early(str(case)[:100], finding, _line(asked)))
    except (KeyError, TypeError, ValueError) as e:
        raise ProgramError(f"the reply is not of the right form: {type(e).__name__}") from None
    return tuple(found)


def _line(v: object) -> int:
    """A line of a submission's text; 0, or None, where there is none. ValueError for anything else."""
    if v is not None and (type(v) is not int or not 0 <= v <= MAX_LINE):
        raise ValueError("a line is a whole number")
    return v or 0


def _taken_apart(
    outcome: Outcome, cases: Iterable[str], live: bool
) -> tuple[tuple[str, ...], BuildError | None, str, list[tuple]]:
    """(cells that failed, error, why it depends on its inputs, (header, blobs) for each case).

    What Python raises here, the reply's form is to blame for.
    """
    header = outcome.header
    try:
        failed = tuple(str(c)[:2000] for c in list(header["failed_cells"])[:100])
        if header["error"] is not None:
            code = header["error"]["code"] if header["error"]["code"] in ("CE", "RTE", "TLE") else "RTE"
            error = BuildError(code, str(header["error"]["message"])[:4000], str(header["error"]["detail"])[:4000])
            return failed, error, "", []
        if header["live"] and not live:
            return failed, None, " ".join(str(header["live"]).split())[:600] or "it says so", []
        replies = [header["programs"][name] for name in cases]
        return failed, None, "", [(parts, [outcome.blobs[i] for i in places]) for parts, places in replies]
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as e:
        raise ProgramError(f"the reply is not of the right form: {type(e).__name__}") from None


def _check_arrays(program: Program, problem: Problem, case: Case) -> None:
    """Inputs and outputs are exactly those that the exercise handed out."""
    have = {(b.name, b.role, b.dtype, b.shape, b.kind) for b in program.buffers if b.role != "temp"}
    want = {
        (a.name, a.role, np.dtype(a.dtype).str, tuple(a.shape(case.sizes)), _KINDS.get(a.where, a.where))
        for a in problem.entry.arrays
    }
    if have != want or program.clock != problem.entry.clock:
        raise ProgramError(f"{case.name}: the arrays are not those of the exercise")
    if program.devices > devices_of(problem):
        raise ProgramError(f"{case.name}: {program.devices} GPUs are used, which the exercise's machine does not have")


_KINDS = {"pinned": "host"}  # Array.where -> Buffer.kind, where they differ


def _ended(outcome: Outcome) -> BuildError:
    message = _SAID.get(outcome.status, outcome.detail)
    if outcome.status == "output":
        message = f"the submission {outcome.detail}"
    detail = outcome.error.traceback if outcome.error else ""
    if outcome.status == "error" and outcome.error:
        message = f"the submission's process failed: {outcome.error.type}: {outcome.error.message}"
    return BuildError(VERDICTS[outcome.status], message, detail)
