"""`grader check-course`: every exercise fails as handed out, is solved by its solution, and rejects wrong answers.

Looks below a checkout's root at `solutions/` and `exercises/` (notebooks) and at `tests/corpus/wrong/<exercise>/`,
where `expected.toml` says for each file which code it must get, and which rule must fail: `"a.py" = "RTE race_free"`.
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from grader import batch, problems
from grader import submission as submissions
from grader.bench import Bench
from grader.problems import Problem
from grader.results import Store
from grader.submission import Cell, Submission, Unreadable

LEAST_WRONG = 4  # wrong answers an exercise must have proved itself against


@dataclass(frozen=True)
class Claim:
    """One thing that must be so."""

    what: str
    submission: Submission
    problem: Problem
    codes: tuple[str, ...]  # any of these
    rule: str = ""  # must be the first that failed; empty: whichever
    full: bool = False  # all points


def main(root: Path, device: str) -> int:
    """Check everything and print what is not so; 0 if all is, 3 if not."""
    console, broken, checked = Console(highlight=False), list(stray(root)), 0
    with Bench(device) as bench, Store() as store:
        for claim in claims(root):
            if isinstance(claim, str):
                broken.append(claim)
                continue
            record = batch.grade_one(claim.submission, claim.problem, bench, store, None)
            checked += 1
            if problem := _broken(claim, record):
                broken.append(problem)
            mark = "[red]BROKEN[/]" if problem else "[green]ok[/]"
            console.print(f"{mark:20} {record['code']:5} {claim.problem.name}: {claim.what}")
    for line in broken:
        console.print(f"[red]{line}[/]", markup=True)
    console.print(f"{checked} answers graded, {len(broken)} things wrong")
    return 3 if broken else 0


def claims(root: Path) -> Iterator[Claim | str]:
    """All that must be so, exercise by exercise; a str is something already known to be wrong."""
    for name in problems.names():
        problem = problems.get(name)
        yield Claim("the reference solves it", _kernel(problem, "reference"), problem, ("AC",), full=True)
        slow = ("SLOW",) if problem.speed else ("AC",)
        yield Claim("the baseline is right, but no faster than itself", _kernel(problem, "baseline"), problem, slow)
        yield from _wrong(root / "tests" / "corpus" / "wrong" / name, problem)
    for folder, codes, what in (("solutions", ("AC",), "solution"), ("exercises", None, "as handed out")):
        for path in sorted((root / folder).rglob("*.ipynb")):
            yield from _notebook(path, codes, what)


def stray(root: Path) -> Iterator[str]:
    """Files that belong to no exercise."""
    wrong = root / "tests" / "corpus" / "wrong"
    for folder in sorted(wrong.iterdir()) if wrong.is_dir() else ():
        if folder.name not in problems.names():
            yield f"{folder.relative_to(root)} belongs to no exercise"
    for folder in ("solutions", "exercises"):
        for path in sorted((root / folder).rglob("*")):
            if (
                path.is_file()
                and path.suffix not in (".ipynb", ".py", ".md")
                and ".ipynb_checkpoints" not in path.parts
            ):
                yield f"{path.relative_to(root)} is a stray file"


def _kernel(problem: Problem, side: str) -> Submission:
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


def _notebook(path: Path, codes: tuple[str, ...] | None, what: str) -> Iterator[Claim | str]:
    try:
        found = submissions.read(str(path))
    except Unreadable as e:
        yield str(e)
        return
    for name in found.exercises:
        problem = problems.get(name)
        failing = tuple(c for c in ("CE", "RTE", "WA", "SLOW", "TLE"))
        yield Claim(f"{path.name} {what}", found, problem, codes or failing)


def _broken(claim: Claim, record: dict) -> str:
    """Why the claim does not hold; empty if it does."""
    where = f"{claim.problem.name}: {claim.what}"
    if record["code"] not in claim.codes:
        return f"{where}: got {record['code']} ({record['message']}), expected {' or '.join(claim.codes)}"
    if claim.full and record["points"] < record["max_points"]:
        return f"{where}: {record['points']:g} of {record['max_points']:g} points"
    failed = [c["name"] for c in record["checks"] if c["passed"] is False]
    if claim.rule and claim.rule not in failed:
        return f"{where}: expected {claim.rule} to fail, but it was {', '.join(failed)}"
    return ""
