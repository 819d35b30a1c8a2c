"""Kernels of the course's kind give what NumPy gives, with all sanitizers on, and these say nothing of correct ones.

The faulty ones among them (`finds`) must be reported. What needs cc 9.0 runs in a process of its own, on an H100.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from course.run import load, watched

CASES = load()


def check(case, found: list[str]) -> None:
    assert sorted({text.partition(",")[0] for text in found}) == sorted(case.finds), found


@pytest.mark.parametrize("name", [case.name for case in CASES.values() if not case.hopper])
def test_on_an_a100(name):
    check(CASES[name], watched(CASES[name].run))


@pytest.fixture(scope="module")
def h100() -> dict[str, dict]:
    """What became of the cases that need one."""
    names = [case.name for case in CASES.values() if case.hopper]
    here = str(Path(__file__).parent)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))}
    done = subprocess.run(
        [sys.executable, "-m", "course.run", "h100", *names], capture_output=True, text=True, env=env, timeout=400
    )
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {result["case"]: result for result in results}


@pytest.mark.parametrize("name", [case.name for case in CASES.values() if case.hopper])
def test_on_an_h100(name, h100):
    assert not h100[name]["error"], h100[name]["error"]
    check(CASES[name], h100[name]["findings"])
