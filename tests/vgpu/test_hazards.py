"""The corpus of hazards: each faulty program is found, once, with both parties; each correct one is left in peace."""

import collections
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hazards import Case, corpus

CASES = corpus()
RUNNER = Path(__file__).with_name("hazards.py")


@pytest.fixture(scope="module")
def answers():
    """What was found in each program of the corpus, by the program's id."""
    env = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, str(RUNNER)], stdout=subprocess.PIPE, text=True, env=env, check=True)
    return {answer["case"]: answer for answer in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_one_report_a_cause(case: Case, answers):
    answer = answers[case.id]
    found = answer["findings"]
    said = "\n".join(f"{f['tool']}, {f['kind']}, line {f['line']} with {f['other']}: {f['message']}" for f in found)
    assert sorted((f["tool"], f["kind"], f["line"], f["other"]) for f in found) == sorted(
        e[:4] for e in case.expected
    ), said
    for *_, words in case.expected:
        assert words in said
    assert all(f["file"] in (str(case.file), "") or f["file"].endswith(".cu") for f in found)
    if not case.expected:
        assert answer["error"] == ""
    else:
        assert not answer["error"].startswith("Traceback"), answer["error"]


def test_the_corpus_is_large_enough():
    faulty = collections.Counter(tool for case in CASES for tool, *_ in case.expected)
    assert all(faulty[tool] >= 25 for tool in ("memcheck", "racecheck", "initcheck", "synccheck")), faulty
    assert sum(not case.expected for case in CASES) >= 100
