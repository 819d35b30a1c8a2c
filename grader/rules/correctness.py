"""Rules on whether an answer is right: it builds, it ends, no sanitizer complains, every value is as it should be."""

from grader.evidence import Evidence, Fault
from grader.rules.check import Check, failed, passed, unknown
from grader.rules.compare import compare

_MEMORY_FAULTS = ("illegal_address", "misaligned")
_LATE = ("timeout", "deadlock")
_CODES = {"memory": "MLE", "output": "OLE", "infrastructure": "IE"}


def compiles(e: Evidence) -> Check:
    """The function is there, takes the right parameters and compiles."""
    error = e.built.error
    if error is None:
        done = "compiled" if e.problem.entry.clock == "device" else "was called and recorded"
        if e.built.live:
            done += (
                f". Graded live: {e.built.live}. So it was called for every set of inputs, and the calls of each were"
                " replayed with the same inputs; a person will look at it, and the points stand until then"
            )
        return passed(f"{e.problem.entry.signature} {done}")
    if error.code == "IE":  # nothing is known of the submission
        return Check(None, error.message, code="IE")
    return failed(error.message, code=error.code)


def as_launched(e: Evidence) -> Check:
    """The kernel is launched as the exercise says, and nothing else is."""
    entry = e.problem.entry
    for run in e.runs:
        program = e.built.programs[run.case.name]
        launches = program.launches()
        want = _dim3(entry.grid(run.case.sizes)), _dim3(entry.block(run.case.sizes))
        if len(program.ops) != 1 or len(launches) != 1:
            kinds = ", ".join(sorted({op.op for op in program.ops})) or "nothing"
            return failed(f"{run.case.name}: expected one launch, recorded {_count(program.ops)} ({kinds})")
        if (launches[0].grid, launches[0].block) != want:
            return failed(
                f"{run.case.name}: launched with grid {launches[0].grid} and block {launches[0].block}, not {want}"
            )
    return passed("one launch per size, with the exercise's grid and block")


def finishes(e: Evidence) -> Check:
    """The kernel comes to an end."""
    fault = _first_fault(e, lambda f: f.kind not in _MEMORY_FAULTS)
    if fault is None:
        return passed("every launch ended")
    case, f = fault
    code = "TLE" if f.kind in _LATE else _CODES.get(f.kind, "RTE")
    hint = "Which loop may never leave, or which thread never reaches the barrier?" if code == "TLE" else ""
    return failed(_sentence(case, f), hint, code)


def in_bounds(e: Evidence) -> Check:
    """Every access stays inside the arrays (memcheck)."""
    fault = _first_fault(e, lambda f: f.kind in _MEMORY_FAULTS)
    found = e.findings("memcheck")
    hint = "Compare the index with the size before each access; the last block is rarely full."
    if found:
        case, f = found[0]
        return failed(_sentence(case, f), hint)
    if fault:
        return failed(_sentence(*fault), hint)
    for run in e.runs:
        if over := {n for r in run.results for n in r.overrun}:
            return failed(f"{run.case.name}: memory next to {', '.join(sorted(over))} was written", hint)
    return passed("no access outside an array")


def initialised(e: Evidence) -> Check:
    """Nothing is read before it was written (initcheck)."""
    return _clean(e, "initcheck", "no read of memory that nobody wrote", "Write it first, or start from zero yourself.")


def race_free(e: Evidence) -> Check:
    """No two threads touch the same place without a barrier between them (racecheck)."""
    hint = (
        "Between what one thread writes and another reads or writes there belongs cuda.syncthreads(), or cuda.syncwarp()"
        " where both are of one warp; also before a place is used again. Nothing orders the blocks of a launch."
    )
    if e.problem.entry.clock == "host":
        hint = (
            "What has to come first? Put both into one stream, let one stream wait for an event of the other, or, where it"
            " is the host that comes too early, let the host wait."
        )
    return _clean(e, "racecheck", "no race", hint)


def barriers_met(e: Evidence) -> Check:
    """Every thread of the block reaches every barrier (synccheck)."""
    hint = "Move cuda.syncthreads() out of the branch; no thread may return before it."
    return _clean(e, "synccheck", "every barrier was reached by all", hint)


def inputs_kept(e: Evidence) -> Check:
    """Inputs are only read."""
    for run in e.runs:
        if changed := {n for r in run.results for n in r.changed}:
            return failed(f"{run.case.name}: the kernel wrote to its input {', '.join(sorted(changed))}")
    return passed("inputs unchanged")


def right_values(e: Evidence) -> Check:
    """Every value is right, at every size."""
    for run in e.runs:
        for result in run.results:
            d = compare(run.expected, result.outputs, e.problem.tolerance, run.inputs, result.poison)
            if d is not None:
                return failed(f"{run.case.name}: {d.sentence()}")
    if e.timing and e.timing.wrong:
        return failed(f"{e.timing.case.name} (timed): {e.timing.wrong}")
    return passed(f"{len(e.runs)} sizes, {len(e.results)} runs, every element compared with float64")


def repeatable(e: Evidence) -> Check:
    """The same inputs give the same result every time."""
    for run in e.runs:
        first, *others = (r.outputs for r in run.results)
        for other in others:
            if any(first[n].tobytes() != other[n].tobytes() for n in first):
                return failed(
                    f"{run.case.name}: two runs on the same inputs differ",
                    "Does it read its output before writing it, or depend on which thread comes first?",
                )
    return passed("two runs on the same inputs agree bit for bit")


def _clean(e: Evidence, tool: str, good: str, hint: str) -> Check:
    if not any(r.sanitized for r in e.results):
        return unknown(f"{tool} did not run")
    found = e.findings(tool)
    if not found:
        return passed(good)
    case, f = found[0]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return failed(_sentence(case, f) + more, hint)


def _first_fault(e: Evidence, wanted) -> tuple | None:
    for run in e.runs:
        for r in run.results:
            if r.fault and wanted(r.fault):
                return run.case, r.fault
    if e.timing and e.timing.fault and wanted(e.timing.fault):
        return e.timing.case, e.timing.fault
    return None


def _sentence(case, f: Fault) -> str:
    where = f"{f.where}: " if f.where and not f.message.startswith(f.where) else ""
    return f"{case.name}: {where}{f.message}"


def _count(ops) -> str:
    return f"{len(ops) or 'no'} operation{'' if len(ops) == 1 else 's'}"


def _dim3(v: tuple[int, ...]) -> tuple[int, int, int]:
    return (*v, 1, 1)[:3]
