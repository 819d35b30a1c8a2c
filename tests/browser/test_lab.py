"""Lessons run from JupyterLab's menu; an exercise is solved by typing, wrong and then right."""

from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
LESSONS = sorted(path.stem for path in (ROOT / "lessons").glob("*.ipynb"))
RUN_MS = 400_000
WATCH = """window.changes = 0; new MutationObserver(all => { window.changes += all.length }).observe(
    document.querySelector('.jp-CodeCell .jp-InputPrompt'), {childList: true})"""
RUNNING = "[...document.querySelectorAll('.jp-InputPrompt')].filter(e => e.textContent.includes('*')).length"


def open_notebook(page, lab: str, path: str) -> None:
    """Open it and wait for its kernel."""
    page.goto(f"{lab}lab/tree/{path}?reset")
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()  # the status bar knows that the kernel is connected


def run_all(page) -> None:
    """The menu's Run > Run All Cells, until the kernel is idle again."""
    page.evaluate(WATCH)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_text("Run All Cells", exact=True).click()
    # Prompts show a star until their cell has run. A busy browser may have shown them all before anybody looks.
    page.wait_for_function(f"window.changes > 0 && {RUNNING} == 0", timeout=RUN_MS)


def saved(page, path: Path) -> list:
    """The code cells of the notebook as it is saved now."""
    page.keyboard.press("Control+s")
    page.wait_for_function("!document.querySelector('.lm-DockPanel-tabBar .jp-mod-dirty')")
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_runs_from_the_menu(page, lab, course, shot, name):
    open_notebook(page, lab, f"lessons/{name}.ipynb")
    run_all(page)
    cells = saved(page, course / "lessons" / f"{name}.ipynb")
    shot(page, f"lesson-{name}")
    assert [cell.execution_count for cell in cells if cell.source] == list(
        range(1, 1 + sum(bool(c.source) for c in cells))
    )
    assert [out.evalue for cell in cells for out in cell.outputs if out.output_type == "error"] == []


def type_answer(page, marker: str, source: str) -> None:
    """Put the text into the code cell that holds `marker`."""
    cell = page.locator(".jp-CodeCell", has_text=marker).first
    cell.scroll_into_view_if_needed()
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(source)


MEND = """@cuda.jit
def mend(x, y):
    tile = cuda.shared.array(WIDTH, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    tile[t + 1] = x[i] if i < x.size else float32(0)
    if t == 0:
        tile[0] = x[i - 1] if i > 0 else float32(0)
    if t == BLOCK - 1:
        tile[t + 2] = x[i + 1] if i + 1 < x.size else float32(0)
    cuda.syncthreads()
    if i < x.size:
        y[i] = tile[t] + float32(2) * tile[t + 1] + tile[t + 2]
"""


def verdict(page, code: str) -> str:
    """What the table under the visible check says, once it says this code."""
    cell = page.locator(".jp-CodeCell", has_text='check("00_mend", mend)').first
    cell.scroll_into_view_if_needed()
    table = cell.locator(".jp-OutputArea").filter(has_text=code)
    table.wait_for()
    return table.inner_text()


def test_an_exercise_is_solved_by_typing_wrong_and_then_right(page, lab, shot):
    open_notebook(page, lab, "exercises/00-first-kernel/mend.ipynb")
    type_answer(page, "def mend(x, y):", MEND.replace("    cuda.syncthreads()\n", ""))
    run_all(page)
    assert "RTE" in verdict(page, "RTE")
    shot(page, "exercise-wrong")
    type_answer(page, "def mend(x, y):", MEND)
    run_all(page)
    said = verdict(page, "AC")
    shot(page, "exercise-right")
    assert "10 / 10 points" in said
    title = page.locator(".verdict td", has_text="racecheck").first
    assert title.evaluate("e => getComputedStyle(e).textAlign") == "left"


def test_nbgraders_validate_button_judges_the_notebook(page, lab, shot):
    open_notebook(page, lab, "exercises/00-first-kernel/grid_stride.ipynb")
    page.get_by_text("Validate", exact=True).click()
    dialog = page.locator(".jp-Dialog")
    dialog.wait_for(timeout=RUN_MS)
    shot(page, "validate")
    assert "failed" in dialog.inner_text().lower()
