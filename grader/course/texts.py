"""What can be said of the course without grading anything: its files, and what its pages tell of each unit."""

import re
from collections.abc import Iterator
from pathlib import Path

from grader import problems
from grader.problems import Problem

OF_A_PROBLEM = {"__init__.py", "problem.py", "baseline.py", "reference.py"}
_KEPT = {".ipynb_checkpoints", "__pycache__"}


def wrong(root: Path) -> Iterator[str]:
    """A sentence for each thing that is not as it should be."""
    yield from stray(root)
    yield from told(root)
    yield from out_of_step(root)


def stray(root: Path) -> Iterator[str]:
    """Files that belong to no exercise."""
    corpus = root / "tests" / "corpus" / "wrong"
    for path in _files(corpus):
        if path.parent.name not in problems.names():
            yield f"{path.relative_to(root)} belongs to no exercise"
        elif path.suffix not in (".py", ".ipynb") and path.name != "expected.toml":
            yield f"{path.relative_to(root)} is a stray file"
    for name in problems.names():
        folder = problems.get(name).folder
        for path in _files(folder):
            if path.name not in OF_A_PROBLEM:
                yield f"{path.relative_to(folder.parents[2])} is a stray file"
    for folder in ("solutions", "exercises"):
        for path in _files(root / folder):
            if path.suffix not in (".ipynb", ".py", ".md"):
                yield f"{path.relative_to(root)} is a stray file"


def _files(folder: Path) -> Iterator[Path]:
    return (p for p in sorted(folder.rglob("*")) if p.is_file() and not _KEPT.intersection(p.parts))


def told(root: Path) -> Iterator[str]:
    """Each unit has a lesson, outcomes, prerequisites and words; each exercise a solution, hints and a place in the list."""
    page, words = (_read(root / p) for p in ("lessons/README.md", "docs/glossary.md"))
    rows = {r[0][1:3]: r for line in page.splitlines() if (r := _cells(line)) and re.match(r"\[\d\d ", r[0])}
    explained = {r[3] for line in words.splitlines() if len(r := _cells(line)) == 4}
    for unit in sorted({n[:2] for n in problems.names()}):
        lessons = sorted((root / "lessons").glob(f"{unit}-*.py"))
        if len(lessons) != 1:
            yield f"unit {unit} has {len(lessons)} lessons"
        elif missing := [m for m in ("**You will**", "**You need**") if m not in _read(lessons[0])]:
            yield f"{lessons[0].relative_to(root)} does not say {' and '.join(missing)}"
        row = rows.get(unit, [])
        if len(row) < 4 or not row[1] or not row[2]:
            yield f"lessons/README.md does not tell outcomes and prerequisites of unit {unit}"
        if unit not in explained:
            yield f"docs/glossary.md has no word of unit {unit}"
        for name in (n for n in problems.names() if n[:2] == unit):
            problem = problems.get(name)
            if not (root / "solutions" / f"{name}.py").is_file():
                yield f"solutions/{name}.py is missing"
            else:
                yield from out_of_line(f"solutions/{name}.py", _read(root / "solutions" / f"{name}.py"), problem)
            if f"`{name[3:]}`" not in (row[3] if len(row) > 3 else ""):
                yield f"lessons/README.md does not name {name} among the exercises of its unit"
            if len(set(problem.hints)) != 3 or not all(problem.hints):
                yield f"{name} needs three hints, each telling more than the one before"


def out_of_line(where: str, text: str, problem: Problem) -> Iterator[str]:
    """What a notebook's text says otherwise than the exercise: its points, row by row, its bar, and its hints."""
    text = re.sub(r"(?m)^# ?", "", text)
    due = {rule.name: rule.points for rule in problem.rubric if rule.points}
    values, hazards = due.pop("right_values"), due.pop("race_free")
    said = [float(points) for points in re.findall(r"(?m)^\| .* \| ([\d.]+) \|$", text)]
    if said != (asked := [values, hazards, *due.values()]):
        yield f"{where} promises {_points(said)} points; the rubric's values, hazards and other rules give {_points(asked)}"
    if problem.speed and _times(problem.speed.bar) not in text:
        yield f"{where} does not say that {_times(problem.speed.bar)} as fast as the baseline is asked"
    told = re.findall(r"(?s)<details><summary>\w+ hint</summary>\n(.*?)</details>", text)
    if [_plain(hint) for hint in told] != [_plain(hint) for hint in problem.hints]:
        yield f"{where} does not give the hints of `grader hint {problem.name}`"


def _times(bar: float) -> str:
    return "at least twice" if bar == 2 else f"at least {bar:g} times"


def _points(points: list[float]) -> str:
    return ", ".join(f"{p:g}" for p in points) or "no"


def _plain(text: str) -> str:
    return " ".join(text.replace("`", "").split())


def out_of_step(root: Path) -> Iterator[str]:
    """Notebooks that are not what is made of their texts, exercises that are not their solutions without the gap."""
    from grader.nb import build

    yield from build.check(root)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""
