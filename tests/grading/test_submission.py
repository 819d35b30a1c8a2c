"""What students hand in is read without being run or trusted."""

import json
import os
import zipfile
from pathlib import Path

import pytest

from grader import batch
from grader.submission import Unreadable, parse, read, walk


def notebook(*cells, **metadata) -> bytes:
    made = []
    for c in cells:
        c = {"source": c} if isinstance(c, str) else c
        made.append({"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None} | c)
    return json.dumps({"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}).encode()


def test_cells_are_numbered_among_the_code_cells():
    raw = notebook({"cell_type": "markdown", "source": "text"}, "a = 1", {"source": ["b = 2\n", "c = 3"]})
    cells = parse("transpose.ipynb", raw).cells
    assert [(c.label, c.source) for c in cells] == [("cell 1", "a = 1"), ("cell 2", "b = 2\nc = 3")]


def test_locked_test_cells_are_left_out_and_solutions_are_not():
    test = {"source": "check()", "metadata": {"nbgrader": {"grade": True, "solution": False, "grade_id": "t"}}}
    solution = {"source": "x = 1", "metadata": {"nbgrader": {"grade": True, "solution": True, "grade_id": "s"}}}
    assert [c.source for c in parse("transpose.ipynb", notebook(test, solution)).cells] == ["x = 1"]


@pytest.mark.parametrize(
    ("path", "raw", "exercises"),
    [
        ("a.ipynb", notebook("x", grader={"exercise": "02_matmul"}), ("02_matmul",)),
        ("a.ipynb", notebook("x", grader={"exercises": ["transpose", "02_matmul"]}), ("02_transpose", "02_matmul")),
        ("a.py", b"# exercise: mend\nx = 1\n", ("00_mend",)),
        ("matmul.py", b"# exercise: 00_mend\n", ("00_mend",)),
        ("team/02_matmul_final.py", b"x = 1", ("02_matmul",)),
        ("02_transpose/anna.py", b"x = 1", ("02_transpose",)),
        ("anna.py", b"x = 1", ()),
        ("anna.ipynb", notebook("x", grader=7), ()),
    ],
)
def test_the_exercise_is_named_by_metadata_else_by_the_path(path, raw, exercises):
    assert parse(path, raw).exercises == exercises


@pytest.mark.parametrize(
    ("path", "raw", "words"),
    [
        ("mend.ipynb", b"{", "not a notebook"),
        ("mend.ipynb", b"[]", "not a notebook"),
        ("mend.ipynb", b"\xff\xfe", "not a notebook"),
        ("mend.py", b"\xff\xfe", "not a script"),
        ("mend.py", b"# exercise: nonsense\n", "no exercise 'nonsense'"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_sentence(path, raw, words):
    with pytest.raises(Unreadable, match=words) as e:
        parse(path, raw)
    assert "\n" not in str(e.value)


def test_links_pipes_and_missing_files_are_refused_at_once(tmp_path):
    os.symlink("/etc/passwd", tmp_path / "mend.py")
    os.mkfifo(tmp_path / "transpose.py")
    for name in ("mend.py", "transpose.py", "matmul.py", "matmul.txt"):
        with pytest.raises(Unreadable):
            read(str(tmp_path / name))


def test_folders_are_walked_in_order_and_what_is_missing_is_told(tmp_path, capsys):
    (tmp_path / "b").mkdir()
    (tmp_path / ".ipynb_checkpoints").mkdir()
    for name in ("b/mend.py", "matmul.py", "matmul.txt", ".hidden.py", ".ipynb_checkpoints/mend.ipynb"):
        (tmp_path / name).write_text("x = 1\n")
    found = [os.path.relpath(p, tmp_path) for p in walk([str(tmp_path), str(tmp_path / "no.py")])]
    assert found == ["matmul.py", "b/mend.py", "no.py"]


def test_a_thousand_folders_in_each_other_are_walked_as_well(tmp_path):
    made = [str(tmp_path)]
    for _ in range(1100):
        made.append(os.path.join(made[-1], "d"))
        os.mkdir(made[-1])
    file = os.path.join(made[-1], "mend.py")
    Path(file).write_text("x = 1\n")
    try:
        assert list(walk([str(tmp_path)])) == [file]
    finally:  # whoever clears up afterwards would call itself as often
        os.remove(file)
        for folder in reversed(made[1:]):
            os.rmdir(folder)


def test_a_plan_names_each_file_that_cannot_be_graded_and_keeps_the_others(tmp_path):
    (tmp_path / "mend.py").write_text("x = 1\n")
    (tmp_path / "bob.py").write_text("x = 1\n")
    (tmp_path / "transpose.ipynb").write_text("{")
    tasks = list(batch.plan([str(tmp_path), str(tmp_path / "gone.py")], None))
    kinds = {os.path.basename(t.path if isinstance(t, batch.Skipped) else t[0].path): t for t in tasks}
    assert "--exercise" in kinds["bob.py"].message
    assert "missing" in kinds["gone.py"].message
    assert isinstance(kinds["transpose.ipynb"][0], batch.Refused)
    assert kinds["mend.py"][1].name == "00_mend"


@pytest.mark.parametrize("path", ["mend.py", "mend.ipynb"])
@pytest.mark.parametrize("raw", [b"", b" \n\t\n"])
def test_an_empty_file_is_said_to_be_empty(path, raw):
    with pytest.raises(Unreadable, match="the file is empty"):
        parse(path, raw)


def test_an_archive_is_read_like_a_folder(tmp_path):
    path = str(tmp_path / "class.zip")
    files = {
        "anna/transpose.py": "x = 1", "ben/02_matmul.ipynb": "{", "c/notes.txt": "", "__MACOSX/._transpose.py": "x",
        "d/.ipynb_checkpoints/transpose.ipynb": "{}", "e/something.py": "x",
    }  # fmt: skip
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    anna, ben, other = batch.plan([path], None)
    assert (anna[0].path, anna[0].cells[0].source, anna[1].name) == (
        f"{path}/anna/transpose.py",
        "x = 1",
        "02_transpose",
    )
    assert (
        isinstance(ben[0], batch.Refused)
        and ben[1].name == "02_matmul"
        and f"{path}/ben/02_matmul.ipynb" in ben[0].message
    )
    assert isinstance(other, batch.Skipped) and "name it with --exercise" in other.message
    assert len(list(batch.plan([path], "mend"))) == 3


@pytest.mark.parametrize("name", ["missing.zip", "empty.zip", "nonsense.tar.gz"])
def test_an_archive_that_cannot_be_read_is_skipped_with_a_sentence(tmp_path, name):
    zipfile.ZipFile(tmp_path / "empty.zip", "w").close()
    (tmp_path / "nonsense.tar.gz").write_text("nonsense")
    (skipped,) = batch.plan([str(tmp_path / name)], "mend")
    assert isinstance(skipped, batch.Skipped) and name in skipped.message and "\n" not in skipped.message
