"""An instructor's round through nbgrader's pages: release, a submission, autograde, feedback; the marks are the grader's."""

import shutil
from pathlib import Path

import nbformat
import pytest

WAIT_MS = 400_000
UNIT = "00-first-kernel"


@pytest.fixture(scope="module")
def submitted(course) -> Path:
    """What a student handed in: one exercise solved, one as it was released."""
    target = course / "submitted" / "mira" / UNIT
    shutil.copytree(course / "exercises" / UNIT, target)
    path = target / "grid_stride.ipynb"
    notebook = nbformat.read(path, as_version=4)
    (answer,) = (cell for cell in notebook.cells if "# YOUR CODE HERE" in cell.source)
    answer.source = answer.source.replace(
        "    # YOUR CODE HERE\n    pass",
        "    for i in range(first, x.size, cuda.gridsize(1)):\n        y[i] = x[i] * x[i] + 1",
    )
    nbformat.write(notebook, path)
    return target


def press(page, row: str, button: str) -> str:
    """Press a button in the row of a table; what the dialog then says. The dialog is closed again."""
    page.locator(f'tr:has-text("{row}") .{button} a').click()
    dialog = page.locator(".modal.in")
    dialog.wait_for(timeout=WAIT_MS)
    said = dialog.inner_text()
    dialog.get_by_text("OK", exact=True).click()
    dialog.wait_for(state="hidden")
    return said


def test_release_autograde_and_feedback(page, lab, course, submitted, shot):
    page.goto(f"{lab}formgrader/manage_assignments")
    assert "Success" in press(page, UNIT, "assign")
    assert "Success" in press(page, UNIT, "release")
    shot(page, "formgrader-assignments")
    page.goto(f"{lab}formgrader/manage_submissions/{UNIT}")
    assert "Success" in press(page, "mira", "autograde")
    row = page.locator("tr", has_text="mira").filter(has_text="10 / 20")
    row.wait_for(timeout=WAIT_MS)  # the table is fetched again once the dialog is there
    assert "graded" in row.inner_text()
    assert "Success" in press(page, "mira", "generate-feedback")
    shot(page, "formgrader-submissions")
    page.goto(f"file://{course}/feedback/mira/{UNIT}/grid_stride.html")
    page.locator("body").get_by_text("10 / 10 points").wait_for()
    page.locator(".verdict").first.scroll_into_view_if_needed()
    shot(page, "feedback")
