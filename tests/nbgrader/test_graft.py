"""A student's cells on the released notebook: the frame is the staff's, whatever was done to it."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from grader.nb.nbgrader import graft
from grader.sandbox.safe_read import Cell


def known(kind, grade_id, source, **flags):
    marks = {"grade_id": grade_id, "schema_version": 3, "solution": False, "grade": False, "locked": False} | flags
    return kind(source, id=grade_id, metadata={"nbgrader": marks})


RELEASED = new_notebook(
    cells=[
        new_markdown_cell("# Title", id="title"),
        known(new_code_cell, "setup", "import numpy", locked=True),
        known(new_code_cell, "answer", "# YOUR CODE HERE", solution=True),
        known(new_code_cell, "test", "check('00_mend', mend)", grade=True, locked=True, points=10),
        known(new_markdown_cell, "essay", "YOUR ANSWER HERE", solution=True, grade=True, points=2),
    ],
    metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
)


def grafted(*cells):
    """Cells given as text, or as (grade_id, text), or as (grade_id, text, type)."""
    parts = [(None, c, "code") if isinstance(c, str) else (*c, "code")[:3] for c in cells]
    made = [Cell(index, source, grade_id, kind) for index, (grade_id, source, kind) in enumerate(parts)]
    out = graft.grafted(RELEASED, made)
    nbformat.validate(out)
    return out


def sources(nb):
    return [c.source for c in nb.cells]


FRAME = ("import numpy", "x = 1", "check('00_mend', mend)", "because")
AS_HANDED_OUT = (("setup", FRAME[0]), ("answer", FRAME[1]), ("test", FRAME[2]), ("essay", FRAME[3], "markdown"))


def test_an_ordinary_submission_keeps_its_order_and_nothing_is_noted():
    nb = grafted("a = 0", *AS_HANDED_OUT[:2], "b = 2", *AS_HANDED_OUT[2:], "c = 3")
    assert sources(nb) == ["a = 0", *FRAME[:2], "b = 2", *FRAME[2:], "c = 3"]
    assert [c.get("execution_count") for c in nb.cells] == [1, 2, 3, 4, 5, None, 6]
    assert nb.metadata.grading.notes == []


def test_metadata_points_and_outputs_are_the_staffs():
    nb = grafted(*AS_HANDED_OUT)
    assert nb.cells[2].metadata == RELEASED.cells[3].metadata
    assert nb.metadata.kernelspec == RELEASED.metadata.kernelspec
    assert all(c.outputs == [] for c in nb.cells if c.cell_type == "code")


def test_the_released_notebook_itself_is_not_changed():
    before = nbformat.writes(RELEASED)
    grafted(*AS_HANDED_OUT).cells[2].metadata.nbgrader.points = 1000
    graft.untouched(RELEASED).cells[0].source = "gone"
    assert nbformat.writes(RELEASED) == before


ODD = (
    "10.0",
    "float('nan')",
    "",
    "np.float64(0.0)",
    "-1",
    "False",
    "'ten'",
    "None",
    "1e9",
    "print('x', file=sys.stderr)",
)


@pytest.mark.parametrize("text", ODD)
def test_an_edited_test_cell_is_put_back(text):
    nb = grafted(*AS_HANDED_OUT[:2], ("test", text), AS_HANDED_OUT[3])
    assert sources(nb) == list(FRAME)
    assert nb.metadata.grading.notes == ["The cell test was changed; it was put back as it was handed out."]


def test_copies_of_a_test_cell_are_dropped_and_copies_of_an_answer_all_run():
    nb = grafted(*AS_HANDED_OUT, ("answer", "x = 2"), ("test", FRAME[2]), FRAME[2])
    assert sources(nb) == [FRAME[0], "x = 1", "x = 2", *FRAME[2:]]
    assert [graft.grade_id(c) for c in nb.cells] == ["setup", None, "answer", "test", "essay"]


def test_an_answer_merged_into_the_test_cell_is_still_run():
    nb = grafted(("setup", FRAME[0]), ("test", "def mend(): pass\ncheck('00_mend', mend)"))
    assert "def mend(): pass\ncheck('00_mend', mend)" in sources(nb)


def test_cells_without_marks_are_kept_and_missing_ones_come_back():
    nb = grafted("import numpy", "x = 1", "check('00_mend', mend)")
    assert sources(nb)[:2] == ["import numpy", "x = 1"]
    assert [graft.grade_id(c) for c in nb.cells] == ["setup", None, "answer", "test", "essay"]
    assert graft.ABSENT in nb.cells[2].source and graft.ABSENT in nb.cells[4].source


def test_a_mark_of_another_notebook_is_no_mark():
    nb = grafted(("foreign", "y = 5"), *AS_HANDED_OUT)
    assert nb.cells[0].source == "y = 5" and "nbgrader" not in nb.cells[0].metadata


def test_no_cells_at_all():
    assert [graft.grade_id(c) for c in grafted().cells] == ["setup", "answer", "test", "essay"]
