"""`grader check-course` says what is wrong with a course; the table of times; a participant's progress."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from grader import cli, course, problems, progress
from grader.course import Claim, figures, texts

ROOT = Path(__file__).parents[2]


@pytest.fixture
def copy(tmp_path):
    """The pages and texts of the course, to be spoiled."""
    for name in ("lessons", "solutions", "docs"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("*.ipynb", ".ipynb_checkpoints"))
    shutil.copytree(ROOT / "tests" / "corpus" / "wrong", tmp_path / "tests" / "corpus" / "wrong")
    return tmp_path


def test_the_course_has_nothing_to_complain_of():
    assert [*texts.stray(ROOT), *texts.told(ROOT)] == []


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda r: (r / "tests/corpus/wrong/02_matmul/notes.txt").touch(), "02_matmul/notes.txt is a stray file"),
        (lambda r: (r / "tests/corpus/wrong/99_none").mkdir(), None),
        (lambda r: _new(r / "tests/corpus/wrong/99_none/a.py"), "99_none/a.py belongs to no exercise"),
        (lambda r: _new(r / "solutions/data.bin"), "solutions/data.bin is a stray file"),
        (lambda r: (r / "solutions/01_ilp.py").unlink(), "solutions/01_ilp.py is missing"),
        (lambda r: _edit(r / "lessons/README.md", "`bottleneck`, ", ""), "does not name 01_bottleneck among"),
        (
            lambda r: _edit(r / "lessons/README.md", "| 00, 06 | `prefetch`", "| | `prefetch`"),
            "prerequisites of unit 07",
        ),
        (lambda r: _edit(r / "docs/glossary.md", "| 03 |", "| 02 |"), "no word of unit 03"),
        (lambda r: next((r / "lessons").glob("05-*.py")).unlink(), "unit 05 has 0 lessons"),
        (
            lambda r: _edit(next((r / "lessons").glob("07-*.py")), "**You need**", "You need"),
            "does not say **You need**",
        ),
        (
            lambda r: _edit(r / "solutions/00_mend.py", "every size | 4 |", "every size | 5 |"),
            "solutions/00_mend.py promises 5, 6 points; the rubric's values, hazards and other rules give 4, 6",
        ),
        (
            lambda r: _edit(r / "solutions/02_transpose.py", "at least 1.4 times as fast as", "faster than"),
            "solutions/02_transpose.py does not say that at least 1.4 times as fast as the baseline is asked",
        ),
        (
            lambda r: _edit(r / "solutions/06_overlap.py", "Wait for all streams at the end", "Wait"),
            "solutions/06_overlap.py does not give the hints of `grader hint 06_overlap`",
        ),
    ],
)
def test_what_is_missing_or_too_much_is_named(copy, spoil, said):
    spoil(copy)
    complaints = [*texts.stray(copy), *texts.told(copy)]
    if said is None:  # an empty folder is nothing that anybody keeps
        assert complaints == []
    else:
        assert [c for c in complaints if said in c] == complaints
        assert complaints


def _new(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.touch()


def _edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


PROBLEM = problems.get("02_transpose")
RIGHT = {
    "code": "AC", "message": "", "points": 10.0, "max_points": 10.0, "checks": [], "speedup": {"over_baseline": 9.0},
    "failed_cells": [],
}  # fmt: skip


@pytest.mark.parametrize(
    ("claim", "record", "said"),
    [
        ({"full": True, "headroom": True}, {}, ""),
        ({}, {"code": "WA"}, "got WA"),
        ({"full": True}, {"points": 9.5}, "9.5 of 10 points"),
        ({"full": True}, {"failed_cells": ["cell 3: 1/0"]}, "but not all of its cells run: cell 3: 1/0"),
        ({}, {"failed_cells": ["cell 3: 1/0"]}, ""),  # a wrong answer's cells may fail
        ({"headroom": True}, {"speedup": {"over_baseline": 1.5}}, "less than 1.15 times the bar"),
        ({"rule": "race_free"}, {"checks": [{"name": "right_values", "passed": False}]}, "expected race_free to fail"),
    ],
)
def test_a_claim_that_does_not_hold_says_why(claim, record, said):
    claim = replace(Claim("it is solved", course.side_of(PROBLEM, "reference"), PROBLEM, ("AC",)), **claim)
    got = course._broken(claim, RIGHT | record)
    assert said in got and bool(said) == bool(got)


def test_what_jupyterlab_keeps_beside_a_notebook_is_no_answer(tmp_path):
    for name in ("00-unit/mend.ipynb", "00-unit/.ipynb_checkpoints/mend-checkpoint.ipynb"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    assert progress.files(tmp_path) == [tmp_path / "00-unit" / "mend.ipynb"]


def test_answers_to_the_exercises_that_are_named_alone_are_graded(monkeypatch, capsys):
    seen = []
    monkeypatch.setattr(course, "prove", lambda proofs, device, console: seen.extend(proofs) or [])
    monkeypatch.setattr(texts, "wrong", lambda root: ["a text is wrong"])
    assert course.main(ROOT, "virtual:a100", ["00_mend"]) == 3
    assert {claim.problem.name for claim in seen} == {"00_mend"} and len(seen) > 5
    assert "a text is wrong" in capsys.readouterr().out


def test_a_folder_that_was_copied_and_not_edited_yet_is_told_what_to_edit(monkeypatch, capsys):
    problems.get.cache_clear()
    monkeypatch.setattr(problems, "names", lambda: ("00_copy",))
    mend = SimpleNamespace(name="00_mend")
    monkeypatch.setattr(problems, "import_module", lambda name: SimpleNamespace(PROBLEM=mend))
    assert cli.main(["check-course", "--root", str(ROOT)]) == 2
    problems.get.cache_clear()
    said = "grader: grader/problems/00_copy/problem.py has name='00_mend': it must be the folder's"
    assert capsys.readouterr().err.strip() == said


def test_the_table_takes_the_place_of_the_old_one():
    page = figures.with_table("# Figures\n\ntext\n", "| old |")
    assert figures.with_table(page, "| new |") == page.replace("| old |", "| new |")
    assert page.startswith("# Figures\n\ntext\n")


def test_the_table_in_the_docs_names_every_exercise_with_its_bar():
    page = (ROOT / "docs" / "figures.md").read_text(encoding="utf-8")
    part = page[page.index(figures.BEGIN) : page.index(figures.END)]
    rows = {row[0]: row[1] for line in part.splitlines() if len(row := texts._cells(line)) > 2}
    for name in problems.names():
        speed = problems.get(name).speed
        assert rows[name] == (f"{speed.bar:g} x" if speed else "structure")


def notebook(*cells) -> str:
    return json.dumps({
        "cells": [
            {"cell_type": "code", "source": source, "outputs": [{"output_type": "stream", "text": text}] if text else []}
            for source, text in cells
        ]
    })  # fmt: skip


def test_progress_is_the_last_verdict_that_a_notebook_keeps(tmp_path):
    saved = notebook(
        ('check("02_transpose", transpose)', "SLOW  Transpose: too slow, 5 / 10 points\n rule ..."),
        ("x = 1", "AC  this is no check, 9 / 10 points"),
        ('check("02_transpose", transpose, graded=True)', "AC  Transpose: accepted, 9.5 / 10 points\n"),
        ('check("02_matmul", matmul)', ""),
    )
    (tmp_path / "a.ipynb").write_text(saved)
    (tmp_path / "b.ipynb").write_text("not a notebook")
    (tmp_path / "c.ipynb").write_text('{"cells": [3]}')
    assert progress.of(tmp_path) == {"02_transpose": ("AC", 9.5)}
    assert progress.notebooks(tmp_path) == dict.fromkeys(("02_transpose", "02_matmul"), tmp_path / "a.ipynb")
