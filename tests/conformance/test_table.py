"""The tables that the runner writes."""

from __future__ import annotations

from .table import beside


def run(file: str, *ends: str) -> dict:
    """A module's outcomes as conformance.json has them."""
    return {"file": file, "outcomes": [{"test": f"{file}.{k}", "outcome": end} for k, end in enumerate(ends)]}


def test_both_runs_stand_side_by_side():
    table = beside(
        [run("a", "passed", "failed", "errors"), run("b", "skipped")],
        [run("a", "passed"), run("c", "skipped", "passed")],
    )
    assert table.splitlines()[2:] == [
        "| a | 1 | 2 | 0 | 1 | 0 | 0 |",
        "| b | 0 | 0 | 1 | - | - | - |",
        "| c | - | - | - | 1 | 0 | 1 |",
        "| **all** | 1 | 2 | 1 | 2 | 0 | 1 |",
    ]
