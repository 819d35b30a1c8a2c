"""What was seen of a submission: the data that rules read. NumPy and the standard library only."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from grader.problems.model import Case, Problem
    from grader.program import Program

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Finding:
    """One cause that a sanitizer found."""

    tool: str  # "memcheck", "racecheck", "initcheck" or "synccheck"
    message: str  # both parties, with numbers
    line: int | None = None  # in the student's text
    file: str = ""  # "submission.py", "cell 3"

    @property
    def where(self) -> str:
        """ "line 9" or "cell 3, line 9" or ""."""
        return place(self.file, self.line)


class Early(NamedTuple):
    """The host touches page-locked memory before what it asked for is over: seen when its calls were recorded."""

    case: str  # name of the size
    finding: Finding  # of racecheck, at the line that reads or writes
    asked: int  # the line that asked for the copy or memset that is not over


@dataclass(frozen=True)
class Fault:
    """Why a run ended early."""

    kind: str  # illegal_address, misaligned, assert, trap, deadlock, timeout, memory, output, launch, infrastructure
    message: str
    line: int | None = None
    file: str = ""

    @property
    def where(self) -> str:
        """ "line 9" or "cell 3, line 9" or ""."""
        return place(self.file, self.line)


@dataclass(frozen=True)
class CardState:
    """What a real card says of itself."""

    sm_mhz: int  # clock of the multiprocessors
    celsius: int
    slowed: tuple[str, ...] = ()  # why it runs slower than it could: "power", "heat", ...
    strangers: int = 0  # other processes that have a context on it


@dataclass(frozen=True)
class RunResult:
    """One replay of a program. The same from every device."""

    device: str  # name of the GPU, real or modelled
    kind: str  # "measured" or "modelled": how `seconds` was got
    outputs: Arrays = field(default_factory=dict)  # by name; empty after a fault
    seconds: float | None = None  # the timed part, between two events
    host_seconds: float | None = None  # by the host's clock, from before the flush until the whole device is idle
    card: CardState | None = None  # right after the timed part; None where the card does not tell
    counters: dict[str, float] = field(default_factory=dict)  # empty where the device cannot count
    findings: tuple[Finding, ...] = ()
    fault: Fault | None = None
    overrun: tuple[str, ...] = ()  # outputs whose guard bands were written
    changed: tuple[str, ...] = ()  # read-only inputs that were written
    late: tuple[str, ...] = ()  # outputs that were not complete when a host function returned
    poison: int = 0xCB  # byte that filled the outputs before the run
    sanitized: bool = False  # the sanitizers watched

    def without_outputs(self) -> "RunResult":
        """The same, with the arrays let go."""
        return replace(self, outputs={})


class Draw(NamedTuple):
    """A size, and inputs that were drawn for it."""

    case: "Case"
    inputs: Arrays


@dataclass(frozen=True)
class CaseRun:
    """A correctness case: the same inputs, run with different poison."""

    case: "Case"
    inputs: Arrays
    expected: Arrays  # float64
    results: tuple[RunResult, ...]  # one a poison


@dataclass(frozen=True)
class BuildError:
    """Why there is no program."""

    code: str  # CE, RTE, TLE, MLE, OLE, SV or IE
    message: str  # one sentence, with the student's line where known
    detail: str = ""  # traceback or compiler text, cut to a few kB


@dataclass(frozen=True)
class Built:
    """What came back from the process that ran the student's Python."""

    programs: dict[str, "Program"] = field(default_factory=dict)  # by case name
    error: BuildError | None = None
    failed_cells: tuple[str, ...] = ()  # "cell 4: NameError: name 'plt' is not defined"
    output: str = ""  # what it printed, cut
    flags: tuple[str, ...] = ()  # what a person should look at
    status: str = "ok"  # how its process ended: a status of grader.sandbox.Outcome
    definitions: bool = False  # only its definitions were run
    # Why its calls have to be recorded anew for every set of inputs ("overlap computes on the host ..."); empty: once is
    # enough. Then `programs` has one recording of each size, and `more` the others.
    live: str = ""
    more: tuple[tuple[str, "Program"], ...] = ()  # (case name, program)
    early: tuple[Early, ...] = ()

    @property
    def recorded(self) -> tuple[tuple[str, "Program"], ...]:
        """(case name, program) of everything that was recorded."""
        return (*self.programs.items(), *self.more)


@dataclass(frozen=True)
class Side:
    """Times of one party: the submission, the baseline or the reference."""

    seconds: float  # median over all timed runs
    counters: dict[str, float]  # of one timed run
    runs: int  # how many were timed


@dataclass(frozen=True)
class Timing:
    """The timed part of a verdict."""

    device: str
    kind: str  # "measured" or "modelled"
    case: "Case"
    sides: dict[str, Side]  # "submission", "baseline", "reference"
    speedup: float  # median over rounds of time(baseline) / time(submission)
    interval: tuple[float, float]  # 95 % bootstrap interval of it
    to_reference: float  # median over rounds of time(submission) / time(reference)
    rounds: int  # that count
    fast: bool = False  # the exercise's bar is reached
    share: float = 0.0  # of the points for speed
    shown: bool = True  # the reference itself reaches the bar: this card shows what the exercise is about
    ambiguous: bool = False  # too close to a mark's limit to tell; decided for the student
    doubt: str = ""  # why the times are not believed at all
    flags: tuple[str, ...] = ()  # what a person should know or look at
    dropped: int = 0  # rounds that do not count, because the card's clock changed within them
    wrong: str = ""  # what was wrong with the output of a timed run
    fault: Fault | None = None


CHOICE = 16 << 10  # bytes: an honest host's choices, such as other chunks or another kernel, take less


@dataclass(frozen=True)
class Swap:
    """Two recordings of a size, each made for inputs of its own, and the first of them played with the other's inputs."""

    case: "Case"
    hosts: int = 0  # bytes in the first that its host made of its inputs: the second has others
    results: int = 0  # bytes of the results
    same: int = 0  # elements of the results that still are the answer to the inputs that the recording was made for
    size: int = 0  # elements whose right answers differ between the two inputs
    fault: str = ""  # why it could not be played: then nothing is known of `same`
    kernels: int = 0  # modules of PTX in the first that no recording has that was made without its inputs


@dataclass(frozen=True)
class Evidence:
    """Everything that rules may look at."""

    problem: "Problem"
    built: Built
    runs: tuple[CaseRun, ...] = ()
    timing: Timing | None = None
    swaps: tuple[Swap, ...] = ()  # of a function that was graded live
    given: Mapping[str, str] = field(
        default_factory=dict
    )  # kernels that the exercise gives: code (rules.kernels) -> name

    @property
    def results(self) -> list[RunResult]:
        """All correctness replays."""
        return [r for run in self.runs for r in run.results]

    def findings(self, tool: str) -> list[tuple["Case", Finding]]:
        """What one sanitizer found, with the first case that shows it; each cause once."""
        seen: dict[tuple, tuple] = {}
        cases = {run.case.name: run.case for run in self.runs}
        early = [each for each in self.built.early if each.finding.tool == tool and each.case in cases]
        for each in early:
            seen.setdefault((each.finding.file, each.finding.line), (cases[each.case], each.finding))
        told = {(each.finding.file, each.asked) for each in early}
        for run in self.runs:
            for f in (f for r in run.results for f in r.findings if f.tool == tool):
                if f.message.startswith("the host ") and (f.file, f.line) in told:
                    continue  # the replay sees what the host does as well, but not at which line
                seen.setdefault((f.file, f.line), (run.case, f))
        return list(seen.values())


def place(file: str, line: int | None) -> str:
    """A position in the student's text, for a sentence: "line 3" of a script, "cell 2, line 3"; without a line, ""."""
    if not line:
        return ""
    return f"{file}, line {line}" if file.startswith("cell") else f"line {line}"
