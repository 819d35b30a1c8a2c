"""nbgrader, end to end: each hand-in ends in its state with its mark, whatever it tried; nothing hidden gets out."""

import contextlib
import csv
import fcntl
import os
import re
import shutil
import subprocess
import sys

import handins
import nbformat
import pytest
from handins import nbgrader
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from nbgrader.apps import NbGraderAPI
from nbgrader.coursedir import CourseDirectory

from grader import cli, submission
from grader.nb.nbgrader import autograde, desk, export, exporter
from grader.submission import Unreadable

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")  # nbgrader's relations overlap


def exported(root, *words):
    nbgrader(root, "export", "--to", str(root / "grades.csv"), *words)
    with open(root / "grades.csv") as lines:
        return {row["student_id"]: row for row in csv.DictReader(lines)}


@pytest.mark.parametrize("student", handins.EXPECTED)
def test_a_hand_in_gets_what_it_deserves(graded, student):
    state, score, _ = handins.EXPECTED[student]
    line = next(line for line in graded.printed.splitlines() if f"] {student} " in line)
    assert line.split()[2] == state, line
    assert graded.grade(student) == (score, score is None), line


def test_everything_that_nbgrader_loses_or_rewards_is_handed_in():
    assert {*handins.LOST_BY_NBGRADER.values(), *handins.CHEATS_ON_NBGRADER.values()} <= set(handins.EXPECTED)
    for student in handins.CHEATS_ON_NBGRADER.values():
        _, score, _ = handins.EXPECTED[student]
        assert score == (10 if student == "edits_the_test_but_is_right" else 0)


def test_the_command_says_how_it_went(graded):
    assert graded.status == 0  # nobody's mark is the grader's fault
    assert f"[{len(handins.EXPECTED)}/{len(handins.EXPECTED)}]" in graded.printed
    assert "nbgrader failed" not in graded.printed


@pytest.mark.parametrize("student", handins.EXPECTED)
def test_feedback_says_what_happened_and_nothing_hidden(graded, student):
    page = graded.feedback(student)
    state, score, _ = handins.EXPECTED[student]
    assert handins.HIDDEN not in page
    assert "FORGED" not in page
    said = {"unreadable": "mend.ipynb", "missing": "was not handed in", "held": "held for review"}
    assert said.get(state, "/ 10 points") in page
    assert state != "unreadable" or str(graded.root) not in page
    if score == 10:
        assert "10 / 10 points" in page


def test_no_file_of_a_student_holds_what_is_hidden(graded):
    for folder in ("autograded", "feedback", "exercises"):
        for path in (graded.root / folder).rglob("*.*"):
            assert handins.HIDDEN not in path.read_text(), path
    assert not any((graded.root / "autograded").rglob("book"))


@pytest.mark.parametrize(
    ("student", "note"),
    [
        ("edits_the_test_but_is_right", "The cell 00_mend was changed; it was put back"),
        ("deletes_the_test", "The cell 00_mend was not found by its mark; it was put back"),
        ("copies_cells", "The answer answer is there more than once"),
        ("strips_metadata", "The answer answer was not found by its mark; your other cells were graded"),
        ("renames_the_file", "mend.ipynb was handed in as"),
    ],
)
def test_what_was_put_right_is_told(graded, student, note):
    assert note in graded.feedback(student)


def test_what_a_cell_raised_stands_below_it(graded):
    nb = nbformat.read(graded.root / "autograded/is_noisy" / handins.UNIT / "mend.ipynb", 4)
    said = {c.source.split("\n")[-1]: "".join(o.get("text", "") for o in c.outputs) for c in nb.cells if "outputs" in c}
    assert "SyntaxError" in said["this is no Python"]
    assert "EOFError" in said["input()"]
    assert not said['check("00_mend", mend)'].strip()  # run by nobody: no error of its own


def test_export_has_a_state_for_everyone_and_no_number_for_what_nobody_marked(graded):
    rows = exported(graded.root)
    for student, (state, score, _) in handins.EXPECTED.items():
        assert rows[student]["state"] == state
        assert rows[student]["score"] == ("" if score is None else f"{float(score)}")
    assert rows["sends_no_json"]["details"].startswith(
        "CE, mend.ipynb is not a notebook that can be graded: The notebook"
    )
    assert rows["right"]["details"] == ""
    assert rows["wrong"]["details"].startswith("WA, mend: ")


def test_every_verdict_that_is_not_accepted_has_a_line_and_all_are_counted(graded):
    lines = graded.printed.splitlines()

    def below(student):
        at = next(n for n, line in enumerate(lines) if f"] {student} " in line)
        return lines[at + 1].split(maxsplit=2)[:2] if lines[at + 1].startswith(" ") else []

    assert below("right") == []
    assert below("wrong") == ["WA", "mend:"]
    assert below("sends_no_json") == ["CE", "mend.ipynb"]
    codes = {"missing": "missing", "held": "SV", "unreadable": "CE"}
    for state, word in codes.items():
        for student in (name for name, expected in handins.EXPECTED.items() if expected[0] == state):
            assert below(student)[0] == word, student
    assert sum(map(int, re.findall(r"(\d+) [A-Za-z]+", lines[-2].removeprefix("verdicts: ")))) == len(handins.EXPECTED)


@pytest.mark.parametrize(
    "text", ["{ this is no notebook", "", "[1, 2]", '{"cells": 3, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}']
)
def test_an_unreadable_file_is_told_in_the_same_words_as_by_grader_grade(tmp_path, text):
    (tmp_path / "mend.ipynb").write_text(text)
    taken = exporter.take_in(str(tmp_path / "mend.ipynb"), handins.source()).metadata.grading
    with pytest.raises(Unreadable) as refused:
        submission.read(str(tmp_path / "mend.ipynb"))
    assert taken.state == "unreadable"
    assert str(tmp_path / taken.message) == str(refused.value)


def test_a_student_who_never_came_is_missing_and_one_not_graded_yet_is_an_error(graded):
    nbgrader(graded.root, "db", "student", "add", "stranger")
    nbgrader(graded.root, "db", "student", "add", "late")
    graded.students.hand_in("late", graded.students.notebook())
    rows = exported(graded.root)
    assert (rows["stranger"]["state"], rows["stranger"]["score"]) == ("missing", "")
    assert (rows["late"]["state"], rows["late"]["score"]) == ("error", "")


def test_nbgraders_own_commands_give_the_same(graded):
    graded.students.hand_in("uses_nbgrader", graded.students.notebook())
    graded.students.hand_in("uses_nbgrader_badly", "no JSON")
    for command in ("autograde", "generate_feedback"):
        subprocess.run(
            [sys.executable, "-m", "nbgrader", command, handins.UNIT, "--student=uses_nbgrader*"],
            cwd=graded.root, check=True, capture_output=True, timeout=400, env={**os.environ, "PYTHONWARNINGS": ""},
        )  # fmt: skip
    rows = exported(graded.root)
    assert (rows["uses_nbgrader"]["state"], rows["uses_nbgrader"]["score"]) == ("graded", "10.0")
    assert (rows["uses_nbgrader_badly"]["state"], rows["uses_nbgrader_badly"]["score"]) == ("unreadable", "")
    assert "10 / 10 points" in graded.feedback("uses_nbgrader")


@pytest.mark.parametrize("left", ["nothing", "taken in", "half"])
def test_what_a_killed_run_left_is_graded_and_not_taken_for_done(graded, left):
    """nbgrader makes the folder first, writes each notebook as it was taken in, and then as it was judged."""
    name = f"killed_{left.replace(' ', '_')}"
    graded.students.hand_in(
        name, graded.students.notebook(handins.WRONG)
    )  # graded before: only nbgrader's part is left
    folder = graded.root / "autograded" / name / handins.UNIT
    folder.mkdir(parents=True)
    taken = exporter.take_in(str(graded.students.folder(name) / "mend.ipynb"), graded.students.released)
    text = {"nothing": "", "taken in": nbformat.writes(taken), "half": nbformat.writes(taken)[:500]}[left]
    if text:
        (folder / "mend.ipynb").write_text(text)
    assert autograde.main(handins.UNIT, graded.root, students=[name]) == 0
    assert graded.grade(name) == (0.0, False)
    assert exported(graded.root)[name]["details"].startswith("WA, mend: ")


def test_a_crashing_resubmission_replaces_the_old_grade(graded):
    known = graded.students.notebook("import os\ngone = os._exit(0)\n" + handins.RIGHT)  # graded before
    graded.students.hand_in("comes_again", graded.students.notebook())
    autograde.main(handins.UNIT, graded.root, students=["comes_again"])
    assert graded.grade("comes_again") == (10.0, False)
    graded.students.hand_in("comes_again", known)
    autograde.main(handins.UNIT, graded.root, students=["comes_again"], force=True)
    assert graded.grade("comes_again") == (0.0, False)
    assert exported(graded.root)["comes_again"]["state"] == "killed"


def test_manual_cells_stay_manual_and_a_missing_notebook_is_told_from_a_bad_one(graded):
    essay = new_notebook(
        cells=[
            new_markdown_cell("Why?", metadata=handins.marks("why", grade=True, solution=True, points=3)),
            new_code_cell("assert True", metadata=handins.marks("plain_assert", grade=True, points=2)),
            new_markdown_cell("A task.", metadata=handins.marks("task", task=True, points=1)),
        ]
    )
    unit = "01-two"
    (graded.root / "solutions" / unit).mkdir()
    nbformat.write(handins.source(), graded.root / "solutions" / unit / "mend.ipynb")
    nbformat.write(essay, graded.root / "solutions" / unit / "essay.ipynb")
    nbgrader(graded.root, "generate_assignment", unit)
    students = handins.Students(graded.root, unit)
    answered = nbformat.read(graded.root / "exercises" / unit / "essay.ipynb", 4)
    answered.cells[0].source = "Because."
    students.hand_in("right", students.notebook())
    students.hand_in("right", answered, "essay.ipynb")
    students.hand_in("wrong", students.notebook())
    autograde.main(unit, graded.root)
    rows = exported(graded.root, "--assignment", unit)
    assert (rows["right"]["state"], rows["right"]["score"]) == ("graded", "")  # two cells wait for a person
    assert (rows["wrong"]["state"], rows["wrong"]["score"]) == ("missing", "10.0")


def test_a_unit_that_nobody_handed_in_and_one_that_was_never_released_are_refused(graded):
    with pytest.raises(autograde.Unusable, match="nobody has handed in 99-none"):
        autograde.main("99-none", graded.root)
    graded.students.folder("right").parent.joinpath("98-none").mkdir()
    with pytest.raises(autograde.Unusable, match="generate_assignment 98-none"):
        autograde.main("98-none", graded.root)


def test_a_fresh_clone_is_told_once_how_its_gradebook_gets_to_know_the_release(tmp_path, capsys):
    handins.make_course(tmp_path)
    nbgrader(tmp_path, "generate_assignment", handins.UNIT)
    students = handins.Students(tmp_path)
    for student in ("ada", "bo"):
        students.hand_in(student, "no JSON")
    (tmp_path / "gradebook.db").unlink()  # what a repository does not hold
    capsys.readouterr()
    assert cli.main(["autograde", handins.UNIT, "--course", str(tmp_path)]) == 2
    said = capsys.readouterr()
    assert said.out == ""  # before any student
    assert said.err == (
        f"grader: the gradebook does not know mend of {handins.UNIT}:"
        f" run `nbgrader generate_assignment {handins.UNIT} --force` once\n"
    )
    nbgrader(tmp_path, "generate_assignment", handins.UNIT, "--force")
    assert autograde.main(handins.UNIT, tmp_path) == 0
    assert "2 unreadable" in capsys.readouterr().out  # it began


def test_what_cannot_be_used_is_one_sentence_and_exit_status_2(tmp_path, capsys):
    handins.make_course(tmp_path)
    nbgrader(tmp_path, "generate_assignment", handins.UNIT)
    handins.Students(tmp_path).hand_in("ada", "no JSON")

    def refused(*words: str) -> str:
        capsys.readouterr()
        assert cli.main(["autograde", handins.UNIT, *words]) == 2
        said = capsys.readouterr()
        assert said.out == "" and said.err.count("\n") == 1
        return said.err

    here = ("--course", str(tmp_path))
    assert "there is no folder /nowhere" in refused("--course", "/nowhere")
    assert "no device 'tpu'" in refused(*here, "--device", "tpu")
    assert "no virtual GPU is called 'tpu'" in refused(*here, "--device", "virtual:tpu")
    (tmp_path / "grader-results.db").write_text("no database" * 100)
    assert "grader-results.db cannot hold results: file is not a database" in refused(*here)
    (tmp_path / "grader-results.db").unlink()
    (tmp_path / "gradebook.db").write_text("no database" * 100)
    assert "gradebook.db, cannot be used: file is not a database" in refused(*here)
    (tmp_path / "nbgrader_config.py").write_text("this is no Python")
    assert "nbgrader_config.py cannot be used: SyntaxError" in refused(*here)


@contextlib.contextmanager
def locked(root):
    """As another process has it."""
    folder = os.open(root, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def test_two_runs_do_not_work_on_one_course_at_a_time(tmp_path, capsys):
    handins.make_course(tmp_path)
    nbgrader(tmp_path, "generate_assignment", handins.UNIT)
    handins.Students(tmp_path).hand_in("ada", "no JSON")
    stock = NbGraderAPI(config=autograde.load_config(tmp_path))
    with locked(tmp_path):
        with pytest.raises(autograde.Unusable, match="another `grader autograde` or `nbgrader autograde` is at work"):
            autograde.main(handins.UNIT, tmp_path)
        said = stock.autograde(handins.UNIT, "ada")
        assert not said["success"] and "another `grader autograde` or `nbgrader autograde` is at work" in said["log"]
    assert not (tmp_path / "autograded").exists()
    assert stock.autograde(handins.UNIT, "ada")["success"]
    shutil.rmtree(tmp_path / "autograded")
    assert autograde.main(handins.UNIT, tmp_path) == 0
    (tmp_path / "autograded" / "ada" / handins.UNIT / "mend.ipynb").write_text('{"cells": [')
    course = CourseDirectory(config=autograde.load_config(tmp_path))
    assert export.state_of(course, handins.UNIT, "ada") == (
        "error", [("error", "mend.ipynb is only half there: autograde it again")],
    )  # fmt: skip


def test_a_name_that_nbgrader_takes_for_a_pattern_is_not_graded_for_others(tmp_path, capsys):
    handins.make_course(tmp_path)
    nbgrader(tmp_path, "generate_assignment", handins.UNIT)
    for name in ("*", "ada"):
        handins.Students(tmp_path).hand_in(name, "no JSON")
    capsys.readouterr()
    assert autograde.main(handins.UNIT, tmp_path) == 3
    said = capsys.readouterr()
    assert said.err == f"grader: *: {autograde.PATTERN}\n"
    assert "1 error, 1 unreadable" in said.out and [p.name for p in (tmp_path / "autograded").iterdir()] == ["ada"]


def test_a_failure_of_the_grader_is_an_error_for_staff_and_tells_students_nothing_of_the_machine(graded, monkeypatch):
    def broken(cells, problem, bench, seed):
        raise OSError("/secret/path is gone")

    monkeypatch.setattr("grader.batch.grade", broken)
    monkeypatch.setattr(desk, "Bench", FakeBench)
    monkeypatch.setattr(desk.caches, "fill", lambda: None)
    graded.students.hand_in("unlucky", graded.students.notebook(handins.RIGHT + "# unlucky\n"))
    assert autograde.main(handins.UNIT, graded.root, students=["unlucky"], feedback=True) == 3
    assert graded.grade("unlucky") == (None, True)
    assert "not your fault" in graded.feedback("unlucky")
    assert "/secret/path" not in graded.feedback("unlucky")


class FakeBench:
    level = 1

    class device:
        spec = "virtual:a100"

        @staticmethod
        def describe():
            return {"name": "none", "spec": "virtual:a100"}

    def __init__(self, *args, **kwargs):
        pass

    def close(self):
        pass
