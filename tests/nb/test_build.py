"""The notebooks in the repository are what their texts say; students get them without the solutions."""

import shutil
from pathlib import Path

import nbformat
import pytest

from grader import problems
from grader.nb import build, percent

ROOT = Path(__file__).parents[2]
SOLUTIONS = sorted((ROOT / "solutions").glob("*/*.ipynb"))


def test_every_notebook_is_in_step_with_its_text():
    assert list(build.check(ROOT)) == []


def test_building_again_writes_nothing():
    assert list(build.build(ROOT)) == []


def test_a_change_on_either_side_is_seen(tmp_path):
    for name in ("lessons", "solutions", "exercises"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    (tmp_path / "solutions" / "00_mend.py").write_text(
        (ROOT / "solutions" / "00_mend.py").read_text().replace("two mistakes", "three mistakes")
    )
    (tmp_path / "exercises" / "00-first-kernel" / "grid_stride.ipynb").unlink()
    stray = tmp_path / "lessons" / "99-nothing.ipynb"
    shutil.copy(ROOT / "lessons" / "00-first-kernel.ipynb", stray)
    kept = tmp_path / "exercises" / "00-first-kernel" / ".ipynb_checkpoints" / "mend-checkpoint.ipynb"  # JupyterLab's
    kept.parent.mkdir(exist_ok=True)
    shutil.copy(stray, kept)
    assert list(build.check(tmp_path)) == [
        "solutions/00-first-kernel/mend.ipynb is not what solutions/00_mend.py says",
        "lessons/99-nothing.ipynb has no text",
        "exercises/00-first-kernel/grid_stride.ipynb is not what nbgrader makes of"
        " solutions/00-first-kernel/grid_stride.ipynb",
    ]


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda p: p.stem)
def test_the_students_copy_is_the_solution_without_its_marked_regions(path):
    ours = nbformat.read(path, 4).cells
    theirs = nbformat.read(ROOT / "exercises" / path.relative_to(ROOT / "solutions"), 4).cells
    assert [c.id for c in ours] == [c.id for c in theirs]
    for mine, handed in zip(ours, theirs, strict=True):
        if mine.metadata.nbgrader.solution:
            before, _, rest = mine.source.partition("    ### BEGIN SOLUTION\n")
            after = rest.partition("    ### END SOLUTION\n")[2] if "END SOLUTION\n" in rest else ""
            assert handed.source.startswith(before) and handed.source.endswith(after)
            assert "SOLUTION" not in handed.source
            gap = handed.source[len(before) : len(handed.source) - len(after)]
            assert [line.strip() for line in gap.strip().split("\n")] == ["# YOUR CODE HERE", "pass"]
        else:
            assert handed.source == mine.source


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda p: p.stem)
def test_an_exercise_has_one_gap_three_hints_a_check_and_a_graded_cell_with_all_points(path):
    notebook = nbformat.read(path, 4)
    problem = problems.get(notebook.metadata.grader.exercise)
    cells = [c for c in notebook.cells if c.metadata.nbgrader.solution]
    assert len(cells) == 1 and cells[0].source.count("### BEGIN SOLUTION") == 1
    text = "".join(c.source for c in notebook.cells if c.cell_type == "markdown")
    assert text.count("<summary>") == 3
    graded = [c for c in notebook.cells if c.metadata.nbgrader.grade]
    assert [c.metadata.nbgrader.points for c in graded] == [problem.max_points]
    entry = problem.entry.name
    assert graded[0].source == f'check("{problem.name}", {entry}, graded=True)'
    assert f'check("{problem.name}", {entry})' in [c.source for c in notebook.cells]


def test_every_exercise_has_a_notebook_and_every_notebook_an_exercise():
    named = [nbformat.read(p, 4).metadata.grader.exercise for p in SOLUTIONS]
    assert sorted(named) == sorted(problems.names())


def test_lessons_store_outputs_without_errors_or_paths():
    for path in sorted((ROOT / "lessons").glob("*.ipynb")):
        for cell in nbformat.read(path, 4).cells:
            for output in cell.get("outputs", ()):
                assert output.output_type != "error" and output.get("name") != "stderr", (path.name, cell.id)
                said = output.get("text") or output.get("data", {}).get("text/plain", "")
                assert "/tmp" not in said and "0x" not in said, (path.name, cell.id, said)


def test_no_line_of_code_is_wider_than_a_notebook():
    paths = [*(ROOT / "lessons").glob("*.ipynb"), *SOLUTIONS]
    wide = [
        (path.name, line)
        for path in paths
        for cell in nbformat.read(path, 4).cells
        if cell.cell_type == "code"
        for line in cell.source.split("\n")
        if len(line) > 106
    ]
    assert wide == []


def test_text_is_pulled_from_a_notebook(tmp_path):
    (tmp_path / "solutions" / "00-first-kernel").mkdir(parents=True)
    notebook = tmp_path / "solutions" / "00-first-kernel" / "mend.ipynb"
    shutil.copy(ROOT / "solutions" / "00-first-kernel" / "mend.ipynb", notebook)
    build.pull(notebook)
    pulled = (tmp_path / "solutions" / "00_mend.py").read_text()
    assert percent.dumps(percent.read(pulled)) == notebook.read_text()


def test_of_the_instructors_page_only_the_table_of_mistakes_is_written(tmp_path):
    (tmp_path / "docs").mkdir()
    wrong = tmp_path / "tests" / "corpus" / "wrong" / "02_transpose"
    wrong.mkdir(parents=True)
    (wrong / "expected.toml").write_text('[code]\n"no_tile.py" = "SLOW few_bytes"\n', encoding="utf-8")
    before = "# Teach\n\n| a | b | c | d |\n|---|---|---|---|\n| 1 | 2 | 3 | 4 |\n\nStays.\n\n"
    header = "| exercise | mistake | code | rule that fails |\n|---|---|---|---|\n"
    page = tmp_path / "docs" / "instructor.md"
    page.write_text(before + header + "| old | row | AC | gone |\n", encoding="utf-8")
    assert build.with_mistakes(tmp_path) == before + header + "| `02` `transpose` | no tile | SLOW | few bytes |\n"
