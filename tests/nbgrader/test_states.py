"""From a record to a state and a mark; and what Gradescope is told."""

import json

import pytest

from grader import cli_grade, exits, problems, report
from grader.nb.nbgrader import states
from grader.report import gradescope

PROBLEM = problems.get("00_mend")
DEVICE = {"name": "none", "spec": "virtual:a100"}


def record(code, message="said", points=0.0, ended="ok"):
    made = report.refusal("anna.ipynb", PROBLEM, code, message, device=DEVICE, seed=1)
    return made | {"code": code, "points": points, "ended": ended}


@pytest.mark.parametrize(
    ("code", "message", "ended", "state", "score"),
    [
        ("AC", "right", "ok", "graded", 2.0),
        ("SLOW", "slow", "ok", "graded", 2.0),
        ("WA", "wrong", "ok", "graded", 2.0),
        ("RTE", "a race", "ok", "graded", 2.0),
        ("RTE", "was ended by SIGSEGV, says a student's exception", "ok", "graded", 2.0),
        ("RTE", "was ended by SIGSEGV", "crashed", "killed", 2.0),
        ("RTE", "ended with exit status 0 without handing over a result", "no_result", "killed", 2.0),
        ("MLE", "memory", "memory", "killed", 2.0),
        ("OLE", "prints", "output", "killed", 2.0),
        ("TLE", "time", "time", "timeout", 2.0),
        ("SV", "attack", "violation", "held", None),
        ("IE", "/secret/path", "killed", "error", None),
    ],
)
def test_a_code_becomes_a_state_and_a_share_of_the_cells_points(code, message, ended, state, score):
    mark = states.of_record(record(code, message, points=5.0, ended=ended), points=4.0)  # 5 of the exercise's 10
    assert (mark.state, mark.score) == (state, score)
    assert "/secret" not in mark.message


def test_the_worst_state_is_an_assignments():
    assert states.worst(["graded", "timeout", "error", "missing"]) == "error"
    assert states.worst(["graded", "missing", "timeout"]) == "timeout"
    assert states.worst([]) == "graded"


def test_gradescope_gets_one_test_a_rule():
    made = gradescope.results([record("WA", "y[0] is wrong", points=6.0)])
    assert made["score"] == 6.0
    assert [t["name"].partition(": ")[0] for t in made["tests"]] == ["00_mend"] * len(PROBLEM.rubric)
    assert sum(t["max_score"] for t in made["tests"]) == PROBLEM.max_points
    assert {t.get("status") for t in made["tests"]} <= {"passed", "failed", None}
    assert "y[0] is wrong" in made["output"] and made["output_format"] == "html"
    json.dumps(made)


def test_gradescope_gets_no_zero_for_a_failure_of_the_grader(tmp_path, capsys):
    with pytest.raises(ValueError, match="no results for Gradescope: 00_mend"):
        gradescope.results([record("AC"), record("IE", "the disk is full")])
    assert cli_grade._gradescope(str(tmp_path / "results.json"), [record("IE", "the disk is full")]) == exits.FAILED
    assert not (tmp_path / "results.json").exists()
    assert "the disk is full" in capsys.readouterr().err
    assert cli_grade._gradescope(str(tmp_path / "results.json"), [record("WA")]) == 0
    assert json.loads((tmp_path / "results.json").read_text())["score"] == 0.0
