"""The table of all exercises: modelled times of baseline, solution and reference, and what the bar asks."""

from pathlib import Path

from rich.console import Console

from grader import batch, problems
from grader import submission as submissions
from grader.bench import Bench
from grader.exits import FAILED
from grader.results import Store
from grader.rules.speed import duration

CARDS = {"A100": "virtual:a100", "T4": "virtual:t4"}
BEGIN, END = "<!-- exercises: made by `grader check-course --figures FILE` -->", "<!-- /exercises -->"


def main(root: Path, target: Path) -> int:
    """Time every solution on the modelled cards and write the table into a page; 0, or 3 if a solution fails."""
    solutions = {
        n: p for p in sorted((root / "solutions").rglob("*.ipynb")) for n in submissions.read(str(p)).exercises
    }
    records, console, failed = {}, Console(highlight=False), 0
    for card, device in CARDS.items():
        with Bench(device) as bench, Store() as store:
            for name in (n for n in problems.names() if problems.get(n).speed):
                found = submissions.read(str(solutions[name]))
                record = batch.grade_one(found, problems.get(name), bench, store, 1)
                console.print(f"{record['code']:5} {name} on {card}")
                failed += record["code"] != "AC"
                records[name, card] = record
    page = target.read_text(encoding="utf-8") if target.is_file() else ""
    target.write_text(with_table(page, table(records)), encoding="utf-8")
    return FAILED if failed else 0


def table(records: dict[tuple[str, str], dict]) -> str:
    """Markdown. Keys of `records`: (exercise, card)."""
    heads = [f"{card}: {what}" for card in CARDS for what in ("baseline", "reference", "solution", "ratio")]
    lines = [f"| exercise | bar | {' | '.join(heads)} |", "|---" * (2 + len(heads)) + "|"]
    for name in problems.names():
        speed = problems.get(name).speed
        cells = [name, f"{speed.bar:g} x" if speed else "structure"]
        for card in CARDS:
            cells += _times(records[name, card]) if speed else ["", "", "", ""]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _times(record: dict) -> list[str]:
    if not record["speedup"]:
        return [record["code"], "", "", ""]
    times = [duration(record["times"][side]["seconds"]) for side in ("baseline", "reference", "submission")]
    return [*times, f"{record['speedup']['over_baseline']:.2f} x"]


def with_table(page: str, made: str) -> str:
    """The page with the table between its marks; at its end where it has none."""
    part = f"{BEGIN}\n{made}\n{END}"
    if BEGIN in page and END in page:
        return page[: page.index(BEGIN)] + part + page[page.index(END) + len(END) :]
    return f"{page.rstrip()}\n\n{part}\n".lstrip()
