"""The table of what passed, in Markdown and JSON.

python -m tests.conformance.table VIRTUAL SIMULATOR      both side by side, from the folders that the runner wrote
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from .runner import OUTCOMES, ModuleResult


def line(result: ModuleResult) -> str:
    """One module in one line of text."""
    counts = ", ".join(f"{result.count(outcome)} {outcome}" for outcome in OUTCOMES if result.count(outcome))
    found = sum(len(outcome.findings) for outcome in result.outcomes)
    return f"{result.file}: {counts or 'no tests'}; {result.seconds:.0f} s" + (f"; {found} findings" if found else "")


def markdown(results: list[ModuleResult], device: str) -> str:
    """The table."""
    rows = [
        f"numba-cuda's own tests on {device}.",
        "",
        "| file | passed | failed | errors | skipped | s |",
        "|---|---|---|---|---|---|",
    ]
    for result in results:
        counts = " | ".join(str(result.count(outcome)) for outcome in OUTCOMES)
        rows.append(f"| {result.file} | {counts} | {result.seconds:.0f} |")
    totals = [sum(result.count(outcome) for result in results) for outcome in OUTCOMES]
    rows.append(f"| **all** | {' | '.join(map(str, totals))} | {sum(result.seconds for result in results):.0f} |")
    ran = sum(totals[:3])
    if ran:
        rows += ["", f"Of {ran} tests that were run, {100 * totals[0] / ran:.1f} % passed."]
    return "\n".join(rows) + "\n"


def write(folder: Path, results: list[ModuleResult], device: str) -> None:
    """conformance.md and conformance.json in `folder`."""
    (folder / "conformance.md").write_text(markdown(results, device))
    (folder / "conformance.json").write_text(json.dumps([asdict(result) for result in results], indent=1))


def _counts(results: list[dict]) -> dict[str, list[int]]:
    """File -> how many passed, did not, were skipped."""
    found = {}
    for result in results:
        ends = [outcome["outcome"] for outcome in result["outcomes"]]
        bad = ends.count("failed") + ends.count("errors")
        found[result["file"]] = [ends.count("passed"), bad, ends.count("skipped")]
    return found


def beside(virtual: list[dict], simulator: list[dict]) -> str:
    """The two runs in one table."""
    mine, theirs = _counts(virtual), _counts(simulator)
    rows = ["| file | virtual GPU: passed | not | skipped | simulator: passed | not | skipped |", "|---|" + "---|" * 6]
    for file in dict.fromkeys([*mine, *theirs]):
        rows.append(
            f"| {file} | " + " | ".join(str(k) for side in (mine, theirs) for k in side.get(file, "---")) + " |"
        )
    totals = [sum(column) for side in (mine, theirs) for column in zip(*side.values(), strict=True)]
    rows.append("| **all** | " + " | ".join(map(str, totals)) + " |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(beside(*(json.loads((Path(folder) / "conformance.json").read_text()) for folder in sys.argv[1:3])))
