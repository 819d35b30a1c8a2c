"""Records on a terminal."""

import os
from collections.abc import Sequence

from rich import box
from rich.console import Group
from rich.markup import escape as plain
from rich.table import Table
from rich.text import Text

from grader.report.printable import lines, printable
from grader.report.stopped import ADVICE, stopped
from grader.rules.speed import duration

COLOURS = {"AC": "green", "SLOW": "yellow", "IE": "magenta", "SV": "magenta"}
MARKS = {
    True: ("passed", "green"),
    False: ("FAILED", "red"),
    None: ("unknown", "magenta"),
    "skipped": ("skipped", "dim"),
}


def table(records: Sequence[dict]) -> Table:
    """One row a submission: exercise, code, points, speed-up, the sentence that decided."""
    out = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    out.add_column("submission", overflow="fold")
    out.add_column("exercise", no_wrap=True)
    out.add_column("code", no_wrap=True)
    out.add_column("points", justify="right", no_wrap=True)
    out.add_column("speed-up", justify="right", no_wrap=True)
    out.add_column("why", overflow="fold", ratio=1)
    common = _common([os.path.dirname(r["submission"]) for r in records])
    for r in records:
        name = os.path.relpath(r["submission"], common) if common else r["submission"]
        out.add_row(plain(printable(name)), r["exercise"], _code(r), _points(r), _speedup(r), escape(_why(r)))
    return out


def _common(folders: list[str]) -> str:
    """The folder that all lie in; empty where some are named from the root and some from here."""
    if len({os.path.isabs(folder) for folder in folders}) != 1:
        return ""
    return os.path.commonpath(folders)


def detail(record: dict) -> Group:
    """Everything that a student is told about one submission."""
    head = Text.assemble(
        (record["code"], f"bold {COLOURS.get(record['code'], 'red')}"),
        f"  {record['title']}: {record['meaning']}, {_points(record)} points",
    )
    rules = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    rules.add_column("rule", overflow="fold")
    rules.add_column("", no_wrap=True)
    rules.add_column("points", justify="right", no_wrap=True)
    rules.add_column("what was seen", overflow="fold", ratio=1)
    for c in record["checks"]:
        word, colour = MARKS[c["passed"]]
        said = escape(c["message"]) + (f"\n[cyan]Hint: {escape(c['hint'])}[/]" if c["hint"] else "")
        points = f"{c['points']:g} / {c['max_points']:g}" if c["max_points"] else ""
        rules.add_row(c["title"], f"[{colour}]{word}[/]", points, said)
    parts: list = [head, rules]
    if record["times"]:
        parts.append(times(record))
    if record["failed_cells"]:
        said = [ADVICE, *(f"  {line}" for line in stopped(record))]
        parts.append(Text(lines("\n".join(said)), style="yellow"))
    if record.get("flags"):
        parts.append(Text("To look at: " + printable("; ".join(record["flags"])), style="magenta"))
    return Group(*parts)


def times(record: dict) -> Table:
    """Own time, the baseline's and the reference's, each with how it was got."""
    out = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("", "time", "how"):
        out.add_column(name, no_wrap=True)
    for side, t in record["times"].items():
        out.add_row(
            side, duration(t["seconds"]), f"{t['kind']} {'on' if t['kind'] == 'measured' else 'for'} {t['device']}"
        )
    return out


def escape(text: str) -> str:
    """For a table: no control characters, no markup."""
    return plain(lines(text))


def _code(r: dict) -> str:
    return f"[bold {COLOURS.get(r['code'], 'red')}]{r['code']}[/]"


def _points(r: dict) -> str:
    return f"{r['points']:g} / {r['max_points']:g}"


def _speedup(r: dict) -> str:
    return f"{r['speedup']['over_baseline']:.2f} x" if r["speedup"] else ""


def _why(r: dict) -> str:
    lost = [c for c in r["checks"] if c["passed"] is False and c["message"] != r["message"]]
    return r["message"] + ("".join(f"; {c['title'].lower()}: no" for c in lost) if r["code"] in ("AC", "SLOW") else "")
