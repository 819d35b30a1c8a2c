"""The tests that are expected to fail, each with its reason: expected_failures.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path

FILE = Path(__file__).resolve().parent / "expected_failures.toml"


def load() -> dict[str, str]:
    """Test -> reason. Raises ValueError for an entry without a reason and for one listed twice."""
    listed: dict[str, str] = {}
    for group in tomllib.loads(FILE.read_text()).get("group", []):
        reason = group.get("reason", "").strip()
        for test in group["tests"]:
            if not reason:
                raise ValueError(f"{test} is listed without a reason")
            if test in listed:
                raise ValueError(f"{test} is listed twice")
            listed[test] = reason
    return listed


def compare(outcomes, listed: dict[str, str], whole: bool = True) -> list[str]:
    """Sentences about tests that failed and are not listed, or passed (or, with `whole`, are gone) and are listed."""
    problems = []
    for outcome in outcomes:
        bad = outcome.outcome in ("failed", "errors")
        if bad and outcome.test not in listed:
            problems.append(f"{outcome.test} does not pass, and is not listed: {last_line(outcome.detail)}")
        elif not bad and outcome.test in listed:
            problems.append(f"{outcome.test} is listed in {FILE.name} and {outcome.outcome}: take it off the list")
    if whole:
        ran = {outcome.test for outcome in outcomes}
        modules = {".".join(test.split(".")[:2]) for test in ran}
        gone = [test for test in listed if ".".join(test.split(".")[:2]) in modules and test not in ran]
        problems += [f"{test} is listed in {FILE.name}, and there is no such test" for test in gone]
    return problems


def last_line(detail: str) -> str:
    """The last line of a traceback."""
    lines = [text for text in detail.strip().splitlines() if text.strip()]
    return lines[-1].strip()[:300] if lines else "no detail"
