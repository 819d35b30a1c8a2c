"""`grader check-course`: every exercise fails as handed out, is solved by its solution, and rejects wrong answers.

Looks below a checkout's root at `solutions/` and `exercises/` (notebooks) and at `tests/corpus/wrong/<exercise>/`,
where `expected.toml` says for each file which code it must get, and which rule must fail: `"a.py" = "RTE race_free"`.
What needs no grading is in `texts`; the table of times in `figures`.
"""

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from grader import batch, problems, progress
from grader import submission as submissions
from grader.bench import Bench
from grader.course import texts
from grader.exits import FAILED
from grader.problems import Problem
from grader.results import Store
from grader.submission import Cell, Submission, Unreadable

LEAST_WRONG = 4  # wrong answers an exercise must have proved itself against
LEAST_BAR = 1.2  # times the baseline's speed: less is no technique
HEADROOM = 1.15  # times the bar: what a solution must reach
SECOND = "virtual:t4"  # on which solutions must have their headroom as well, where the first device models time


@dataclass(frozen=True)
class Claim:
    """One thing that must be so."""

    what: str
    submission: Submission
    problem: Problem
    codes: tuple[str, ...]  # any of these
    rule: str = ""  # must be among those that fail; empty: whichever
    full: bool = False  # all points
    headroom: bool = False  # a solution: it must clear the bar with room to spare


def main(root: Path, device: str, exercises: Sequence[str] = ()) -> int:
    """Check everything and print what is not so; 0 if all is, 3 if not.

    Where exercises are named, only answers to these are graded; texts and files are looked at all the same.
    """
    console = Console(highlight=False)
    wanted = set(exercises or problems.names())
    found = [c for c in claims(root) if isinstance(c, str) or c.problem.name in wanted]
    broken = [*texts.wrong(root), *(c for c in found if isinstance(c, str))]
    proofs = [c for c in found if isinstance(c, Claim)]
    broken += prove(proofs, device, console)
    checked = len(proofs)
    if device.startswith("virtual"):
        again = [c for c in proofs if c.headroom]
        broken += prove(again, SECOND, console)
        checked += len(again)
    for line in broken:
        console.print(line, style="red", markup=False, soft_wrap=True)
    console.print(f"{checked} answers graded, {len(broken)} things wrong")
    return FAILED if broken else 0


def prove(proofs: list[Claim], device: str, console: Console) -> list[str]:
    """Grade what the claims are about; what does not hold, a sentence each."""
    broken = []
    with Bench(device) as bench, Store() as store:
        for claim in proofs:
            record = batch.grade_one(claim.submission, claim.problem, bench, store, None)
            problem = _broken(claim, record)
            broken += [f"{problem} (on {device})"] if problem else []
            mark = "[red]BROKEN[/]" if problem else "[green]ok[/]"
            where = bench.device.spec
            console.print(f"{mark:20} {record['code']:5} {claim.problem.name}: {claim.what} ({where})", soft_wrap=True)
    return broken


def claims(root: Path) -> Iterator[Claim | str]:
    """All that must be so, exercise by exercise; a str is something already known to be wrong."""
    for name in problems.names():
        problem = problems.get(name)
        if problem.speed and problem.speed.bar < LEAST_BAR:
            yield f"{name}: the bar is {problem.speed.bar:g} times the baseline's speed; {LEAST_BAR:g} is the least"
        yield Claim("the reference solves it", side_of(problem, "reference"), problem, ("AC",), full=True)
        slow = ("SLOW",) if problem.speed else ("AC",)
        yield Claim("the baseline is right, but no faster than itself", side_of(problem, "baseline"), problem, slow)
        yield from _wrong(root / "tests" / "corpus" / "wrong" / name, problem)
    for path in progress.files(root / "solutions"):
        yield from _notebook(path, ("AC",), "is solved by its solution", full=True)
    for path in progress.files(root / "exercises"):
        yield from _notebook(path, ("CE", "RTE", "WA", "SLOW", "TLE"), "fails as handed out")


def side_of(problem: Problem, side: str) -> Submission:
    """The baseline or the reference, as if a student had handed it in."""
    source = problem.source(side)
    return Submission(f"{side}.py", (Cell("submission.py", source),), (problem.name,), f"{problem.name}/{side}")


def _wrong(folder: Path, problem: Problem) -> Iterator[Claim | str]:
    files = sorted(p for p in folder.glob("*") if p.suffix in (".py", ".ipynb"))
    listed = folder / "expected.toml"
    expected = tomllib.loads(listed.read_text())["code"] if listed.is_file() else {}
    if len(files) < LEAST_WRONG:
        yield f"{problem.name} has {len(files)} wrong answers to prove itself against; at least {LEAST_WRONG} are asked"
    for name in sorted(set(expected) ^ {f.name for f in files}):
        yield f"{problem.name}: {name} is either not there or not in expected.toml"
    for path in files:
        if path.name in expected:
            code, _, rule = expected[path.name].partition(" ")
            yield Claim(f"{path.name} is {code}", submissions.read(str(path)), problem, (code,), rule.strip())


def _notebook(path: Path, codes: tuple[str, ...], what: str, full: bool = False) -> Iterator[Claim | str]:
    try:
        found = submissions.read(str(path))
    except Unreadable as e:
        yield str(e)
        return
    for name in found.exercises:
        problem = problems.get(name)
        yield Claim(what, found, problem, codes, full=full, headroom=full and problem.speed is not None)


def _broken(claim: Claim, record: dict) -> str:
    """Why the claim does not hold; empty if it does."""
    where = f"{claim.problem.name}: {claim.what}"
    if record["code"] not in claim.codes:
        return f"{where}: got {record['code']} ({record['message']}), expected {' or '.join(claim.codes)}"
    if claim.full and record["points"] < record["max_points"]:
        return f"{where}: {record['points']:g} of {record['max_points']:g} points"
    if claim.full and record["failed_cells"]:
        return f"{where}, but not all of its cells run: {'; '.join(record['failed_cells'])}"
    if claim.headroom and (ratio := record["speedup"]["over_baseline"]) < HEADROOM * claim.problem.speed.bar:
        bar = claim.problem.speed.bar
        return f"{where}: {ratio:.2f} times the baseline's speed is less than {HEADROOM:g} times the bar of {bar:g}"
    failed = [c["name"] for c in record["checks"] if c["passed"] is False]
    if claim.rule and claim.rule not in failed:
        return f"{where}: expected {claim.rule} to fail, but it was {', '.join(failed)}"
    return ""
