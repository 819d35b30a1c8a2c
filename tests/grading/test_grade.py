"""The whole path from cells to records, on a device that is a NumPy function; results survive."""

import json
import os
import re
import sqlite3

import numpy as np
import pytest

from grader import batch, cli, problems, report, results
from grader.devices import DeviceLost
from grader.evidence import BuildError, Built, RunResult
from grader.grade import grade
from grader.problems.model import Array
from grader.program import Buffer, Launch, Program
from grader.results import Store, key
from grader.submission import Cell, Submission

PROBLEM = problems.get("02_transpose")


def right(x):
    return np.ascontiguousarray(x.T)


ANSWERS = {
    "right": (right, 1e-5),
    "slow": (right, 9e-5),
    "zeros": (lambda x: np.zeros(x.T.shape, "f4"), 1e-5),
    "baseline": (right, 1e-4),
    "reference": (right, 1e-5),
    "learns": (right, 1e-5),
}


class NumpyDevice:
    spec, kind, sanitizes = "virtual:a100", "modelled", True
    lost = 0

    def describe(self):
        return {"name": "NumPy", "kind": "modelled", "cc": [8, 0], "driver": 0, "spec": self.spec}

    def replay(self, runs):
        self.calls = getattr(self, "calls", 0) + 1
        if self.lost:
            self.lost -= 1
            raise DeviceLost("gone")
        out = []
        for run in runs:
            function, seconds = ANSWERS[run.program.ops[0].kernel]
            result = {"out": function(run.inputs["a"])}
            out.append(RunResult("NumPy", self.kind, result, seconds, poison=run.poison, sanitized=run.sanitize))
        return out

    def close(self):
        pass


class FakeBench:
    """Records a program whose kernel's name is the text of the submission."""

    def __init__(self, *args, **kwargs):
        self.device = self.watcher = NumpyDevice()
        self.protections, self.level = ("landlock", "seccomp"), 1
        self.known = {}

    def record(self, cells, problem, cases):
        return Built({case.name: self.program(cells[-1].source, problem, case) for case in cases})

    def program(self, kernel, problem, case):
        buffers = []
        for a in (p for p in problem.entry.params if isinstance(p, Array)):
            shape = a.shape(case.sizes)
            buffers.append(Buffer(4 * int(np.prod(shape)), "device", a.role, a.name, a.dtype, shape))
        grid, block = ((*problem.entry.grid(case.sizes), 1, 1)[:3], (*problem.entry.block(case.sizes), 1, 1)[:3])
        return Program.make(buffers, [b".version 8.0"], [Launch(0, kernel, grid, block, 0, b"")])

    def trusted(self, problem, case):
        return {side: self.program(side, problem, case) for side in ("baseline", "reference")}

    def timed_case(self, problem):
        return problem.speed.modelled

    def given(self, problem):
        return {}

    def known_times(self, problem):
        return self.known

    def learn_times(self, problem, timing):
        self.known = {s: timing.sides[s] for s in ("baseline", "reference")} if timing.sides else {}

    def close(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass


def submission(source, path="anna.py"):
    return Submission(path, (Cell("submission.py", source),), (PROBLEM.name,), f"digest of {source}")


@pytest.mark.parametrize(("answer", "code"), [("right", "AC"), ("slow", "SLOW"), ("zeros", "WA")])
def test_an_answer_gets_its_verdict(answer, code):
    verdict = grade(submission(answer).cells, PROBLEM, FakeBench(), seed=1)
    assert verdict.code == code, verdict.message


def test_the_same_seed_gives_the_same_verdict_and_another_seed_other_sizes():
    one, same, other = (grade(submission("zeros").cells, PROBLEM, FakeBench(), seed=s) for s in (1, 1, 2))
    assert one.message == same.message != other.message
    assert [r.case for r in one.evidence.runs] != [r.case for r in other.evidence.runs]


def test_only_what_is_right_is_timed_and_trusted_sides_are_timed_once():
    bench = FakeBench()
    for _ in range(2):
        grade(submission("right").cells, PROBLEM, bench, seed=1)
    assert grade(submission("zeros").cells, PROBLEM, bench, seed=1).timing is None
    assert bench.device.calls == 2 * 2 + 1


def test_a_result_is_kept_and_not_made_twice(tmp_path):
    bench = FakeBench()
    with Store(str(tmp_path / "r.db")) as store:
        first = batch.grade_one(submission("right"), PROBLEM, bench, store, None)
        calls = bench.device.calls
    with Store(str(tmp_path / "r.db")) as store:
        again = batch.grade_one(submission("right", "moved/anna.py"), PROBLEM, bench, store, None)
    assert bench.device.calls == calls
    assert again == first | {"submission": "moved/anna.py"}


def test_another_seed_policy_device_sandbox_or_file_is_another_result():
    cards = [{"spec": "cuda:0", "name": name, "driver": driver} for name in ("A", "B") for driver in (1, 2)]
    keys = {
        key(submission(a), PROBLEM, card, level, s)
        for a in ("x", "y") for card in cards for level in (0, 1, 2) for s in (None, 1)
    }  # fmt: skip
    assert len(keys) == 48


def test_a_result_got_under_another_sandbox_is_not_reused(tmp_path):
    weak, strong = FakeBench(), FakeBench()
    weak.level = 0
    with Store(str(tmp_path / "r.db")) as store:
        first = batch.grade_one(submission("right"), PROBLEM, weak, store, None)
        second = batch.grade_one(submission("right"), PROBLEM, strong, store, None)
        assert batch.grade_one(submission("right"), PROBLEM, weak, store, None) == first
    assert strong.device.calls > 0
    assert (first["sandbox_level"], second["sandbox_level"]) == (0, strong.level)


def test_a_result_outlives_changes_of_what_decides_no_verdict_only():
    decides = ["rules/speed.py", "report/record.py", "vgpu/model/sm.py", "jobs.py", "problems/inputs.py", "grade.py"]
    assert not any(results._NO_VERDICT.match(name) for name in decides)
    others = ["report/html.py", "nb/percent.py", "problems/03_stencil/problem.py", "cli.py"]
    assert all(results._NO_VERDICT.match(name) for name in others)


def test_a_lost_device_is_tried_again_and_then_a_fault_of_the_grader_that_is_not_kept(tmp_path):
    bench = FakeBench()
    with Store(str(tmp_path / "r.db")) as store:
        bench.device.lost = 1
        assert batch.grade_one(submission("right"), PROBLEM, bench, store, None)["code"] == "AC"
        bench.device.lost = 2
        record = batch.grade_one(submission("slow"), PROBLEM, bench, store, None)
        assert (record["code"], record["points"]) == ("IE", 0)
        assert batch.grade_one(submission("slow"), PROBLEM, bench, store, None)["code"] == "SLOW"


def test_results_are_on_disk_before_they_are_returned(tmp_path):
    path = tmp_path / "r.db"
    store = Store(str(path))
    batch.grade_one(submission("right"), PROBLEM, FakeBench(), store, 5)
    with sqlite3.connect(path) as other:
        ((text, seed),) = other.execute("SELECT record, seed FROM results").fetchall()
    other.close()
    assert json.loads(text)["code"] == "AC"
    assert seed == "5"
    store.close()


def test_a_process_that_something_else_killed_is_tried_again(tmp_path):
    bench, ends = FakeBench(), ["killed", "killed", "killed", "ok"]
    usual = bench.record

    def record(cells, problem, cases):
        if (end := ends.pop(0)) == "ok":
            return usual(cells, problem, cases)
        return Built(error=BuildError("IE", "was killed by something outside the grader"), status=end)

    bench.record = record
    with Store(str(tmp_path / "r.db")) as store:
        first = batch.grade_one(submission("right"), PROBLEM, bench, store, None)
        assert (first["code"], first["points"], first["ended"], len(ends)) == ("IE", 0, "killed", 2)
        assert batch.grade_one(submission("right"), PROBLEM, bench, store, None)["code"] == "AC"


def test_what_ran_unprotected_is_marked(tmp_path):
    bench = FakeBench()
    with Store() as store:
        locked = batch.grade_one(submission("right"), PROBLEM, bench, store, 1)
        bench.level = 0
        trusted = batch.grade_one(submission("right"), PROBLEM, bench, store, 2)
    assert (locked["sandbox_level"], locked["flags"]) == (1, [])
    assert trusted["sandbox_level"] == 0 and "--trust-submissions" in trusted["flags"][0]


@pytest.fixture
def records():
    with Store() as store:
        return [batch.grade_one(submission(a, f"{a}.py"), PROBLEM, FakeBench(), store, 3) for a in ANSWERS]


def test_a_record_is_json_with_the_promised_keys(records):
    record = json.loads(json.dumps(records[0], allow_nan=False))
    wanted = {
        "submission",
        "exercise",
        "code",
        "points",
        "max_points",
        "checks",
        "times",
        "findings",
        "seed",
        "versions",
    }
    assert wanted <= set(record)
    assert set(record["checks"][0]) >= {"name", "passed", "message", "hint"}
    assert record["times"]["submission"]["kind"] == "modelled"
    assert record["times"]["submission"]["device"] == "NumPy"
    assert record["speedup"]["over_baseline"] == pytest.approx(10)


def test_the_page_stands_alone_and_text_of_students_is_harmless_in_it(records):
    evil = records[0] | {"submission": "<script>alert(1)</script>", "failed_cells": ["cell 1: <b>"]}
    html = report.page([evil, *records])
    assert "<script>" not in html and "&lt;script&gt;" in html
    assert "http" not in html.replace("http-equiv", "")
    assert 'name="viewport"' in html


def test_commands_grade_report_and_exit_as_promised(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("grader.cli_grade.Bench", FakeBench)
    monkeypatch.chdir(tmp_path)
    for answer in ("right", "zeros"):
        (tmp_path / f"transpose_{answer}.py").write_text(answer)
    (tmp_path / "transpose_broken.ipynb").write_text("{")
    arguments = ["grade", ".", "--device", "virtual", "--json", "out.json", "--html", "out.html", "--seed", "4"]
    assert cli.main(arguments) == 0
    written = json.loads((tmp_path / "out.json").read_text())
    assert [(os.path.basename(r["submission"]), r["code"]) for r in written] == [
        ("transpose_broken.ipynb", "CE"),
        ("transpose_right.py", "AC"),
        ("transpose_zeros.py", "WA"),
    ]
    assert {r["seed"] for r in written} == {4}
    assert (tmp_path / "out.html").read_text().startswith("<!doctype html>")
    out = capsys.readouterr().out
    assert "WA" in out and "AC" in out and "modelled" in out
    assert cli.main(["grade", "gone.py", "transpose_right.py", "--device", "virtual"]) == 2
    said = capsys.readouterr()
    assert "gone.py" in said.err and "AC" in said.out


FILES = ("--json", "--html", "--junit", "--gradescope", "--results")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["grade", "x.py", "--exercise", "nope"], "no exercise 'nope'"),
        (["grade", "x.py", "--device", "tpu"], "no device 'tpu'"),
        (["grade", "x.py", "--device", "tpu"], "rtx4090, h100 or h200"),
        (["grade", "x.py", "--device", "virtual:tpu"], "'tpu'"),
        (
            ["grade", "transpose.py", "b/transpose.py", "--device", "h100", "--gradescope", "r.json"],
            "one student's files",
        ),
        (["grade", "x.py", "--device", "cuda:99"], "GPU"),
        (["grade", "."], "nothing to grade"),
        (["hint", "nope"], "no exercise"),
        *((["grade", "x.py", option, "gone/x"], "there is no folder gone") for option in FILES),
        *((["grade", "x.py", option, "."], "is a folder: name a file") for option in FILES),
        (["grade", "x.py", "--pages", "gone/deep"], "there is no folder gone"),
        (["grade", "transpose.py", "--device", "virtual", "--results", "transpose.py"], "file is not a database"),
        (["run", "--timeline", "x.foo", "transpose.py"], "as a picture, .png, .svg, .pdf, or as a .json"),
        (["run", "--timeline", "gone/x.png", "transpose.py"], "there is no folder gone"),
        (["grade", "a\x1b[2J.py"], "a\\x1b[2J.py"),
    ],
)
def test_what_cannot_be_used_is_one_sentence_and_exit_status_2(tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "transpose.py").write_text("this is no database" * 10)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "transpose.py").write_text("x = 1")
    if arguments == ["grade", "."]:
        monkeypatch.chdir(tmp_path / "b")
        os.unlink("transpose.py")
    assert cli.main(arguments) == 2
    err = capsys.readouterr().err.strip()
    assert words in err and "\n" not in err


@pytest.mark.parametrize("jobs", ["0", "-2", "x"])
def test_there_is_at_least_one_job(capsys, jobs):
    with pytest.raises(SystemExit) as ended:
        cli.main(["grade", "x.py", "--jobs", jobs])
    assert ended.value.code == 2 and "is not a whole number from 1 on" in capsys.readouterr().err


def test_what_was_graded_before_is_said_to_be_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("grader.cli_grade.Bench", FakeBench)
    monkeypatch.chdir(tmp_path)
    for name, answer in (("a", "right"), ("b", "zeros")):
        (tmp_path / f"transpose_{name}.py").write_text(answer)
    arguments = ["grade", ".", "--device", "virtual", "--results", "kept.db"]
    last = []
    for paths in ([], [], ["transpose_new.py"]):
        for path in paths:
            (tmp_path / path).write_text("slow")
        assert cli.main(arguments) == 0
        last.append(capsys.readouterr().out.strip().splitlines()[-1])
    assert re.match(r"2 graded; ready in .*, others .* s each \(median\), \d+ a minute", last[0])
    assert last[1].startswith("0 graded, 2 kept; ready in") and "first" not in last[1] and "minute" not in last[1]
    (tmp_path / "transpose_new.py").write_text("")
    assert cli.main(arguments) == 0
    assert "0 graded, 2 kept, 1 not readable; " in capsys.readouterr().out
    assert last[2].startswith("1 graded, 2 kept; ready") and "first" in last[2] and "median" not in last[2]


def test_what_was_never_run_has_no_sandbox_level():
    refused = batch.Refused("x.py", "x.py is a folder")
    assert batch.refuse(refused, PROBLEM, FakeBench(), 1)["sandbox_level"] is None


def test_a_disk_that_gets_full_loses_nothing_that_was_graded(tmp_path, monkeypatch, capsys):
    def put(store, key, record):
        if record["submission"].endswith(("_b.py", "_c.py")):
            raise results.Unusable("kept.db cannot hold results: database or disk is full")
        return kept(store, key, record)

    kept = results.Store.put
    monkeypatch.setattr(results.Store, "put", put)
    monkeypatch.setattr("grader.cli_grade.Bench", FakeBench)
    monkeypatch.chdir(tmp_path)
    for name, answer in (("a", "right"), ("b", "zeros"), ("c", "slow")):
        (tmp_path / f"transpose_{name}.py").write_text(answer)
    arguments = ["grade", ".", "--device", "virtual", "--results", "kept.db", "--json", "out.json", "--jobs", "1"]
    assert cli.main(arguments) == 3
    said = capsys.readouterr()
    assert "database or disk is full; 1 of 3 were graded" in said.err and "AC" in said.out
    assert [r["submission"] for r in json.loads((tmp_path / "out.json").read_text())] == ["./transpose_a.py"]


def test_a_report_that_cannot_be_written_does_not_keep_the_others_from_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("grader.cli_grade.Bench", FakeBench)
    (tmp_path / "transpose_right.py").write_text("right")
    arguments = [
        "grade",
        str(tmp_path),
        "--device",
        "virtual",
        "--json",
        "/dev/full",
        "--junit",
        str(tmp_path / "j.xml"),
    ]
    assert cli.main(arguments) == 3
    assert "/dev/full cannot be written: No space left on device" in capsys.readouterr().err
    assert (tmp_path / "j.xml").read_text().startswith("<?xml")


def test_a_fault_of_the_grader_is_exit_status_3(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("grader.cli_grade.Bench", FakeBench)
    monkeypatch.setattr(NumpyDevice, "lost", 99)
    (tmp_path / "transpose_right.py").write_text("right")
    assert cli.main(["grade", str(tmp_path), "--device", "virtual"]) == 3
    assert "IE" in capsys.readouterr().out


def test_hints_are_a_ladder(capsys):
    assert cli.main(["hint", "mend"]) == 0
    assert cli.main(["hint", "mend", "3"]) == 0
    hints = problems.get("mend").hints
    assert capsys.readouterr().out.splitlines() == [
        hints[0],
        "(hint 1 of 3; the next: grader hint 00_mend 2)",
        hints[2],
        "(hint 3 of 3)",
    ]
