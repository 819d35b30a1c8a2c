"""Reports and nbgrader's feedback as a person sees them: nothing reaches beyond a phone's screen, hints open."""

from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_output
from nbgrader.converters import GenerateFeedback
from traitlets.config import Config

from grader import problems, report
from grader.nb.nbgrader.feedback import Feedback
from grader.report.html import fragment

ROOT = Path(__file__).parents[2]
DEVICE = {"name": "NVIDIA A100-SXM4-80GB (virtual)", "spec": "virtual:a100"}


def record(name: str) -> dict:
    """A verdict with all that a page can show, in the longest words."""
    made = report.refusal(name, problems.get("00_grid_stride"), "CE", "said " * 30, device=DEVICE, seed=2**62)
    made["checks"][0]["hint"] = "Let neighbouring threads take neighbouring elements: start at cuda.grid(1)."
    made["failed_cells"] = ["cell 7: cell 7, line 2: ModuleNotFoundError: No module named 'a_name_that_has_no_end'" * 2]
    side = {"seconds": 1e-5, "kind": "modelled", "device": DEVICE["name"], "case": "n = 2097152", "runs": 1}
    made["times"] = dict.fromkeys(("submission", "baseline", "reference"), side)
    return made


def feedback() -> str:
    """The page of a real exercise, made as `nbgrader generate_feedback` makes it."""
    notebook = nbformat.read(ROOT / "exercises" / "00-first-kernel" / "grid_stride.ipynb", 4)
    notebook.cells[-1].metadata.nbgrader.score = 6
    notebook.cells[-1].outputs = [new_output("execute_result", {"text/html": fragment(record("anna.ipynb"))})]
    about = {"notebook": "grid-stride", "score": 6, "max_score": 10, "late_penalty": 0}
    exporter = Feedback(config=GenerateFeedback(config=Config()).config)
    return exporter.from_notebook_node(notebook, {"nbgrader": about, "metadata": {"name": "grid-stride"}})[0]


PAGES = {
    "feedback": feedback,
    "submission": lambda: report.page([record("anna.py")]),
    "class": lambda: report.page([record(f"{name}_of_a_long_family_name/02_transpose.py") for name in ("anna", "ben")]),
}


@pytest.fixture
def seen(browser, shot):
    """seen(name, width): the page in a window of a width in pixels, as a phone would have it; nothing is loaded for it."""
    contexts = []

    def show(name: str, width: int):
        contexts.append(browser.new_context(viewport={"width": width, "height": 900}, is_mobile=width < 500))
        page = contexts[-1].new_page()
        page.route("**/*", lambda route: route.abort())
        page.set_content(PAGES[name](), wait_until="domcontentloaded")
        shot(page, f"page-{name}-{width}")
        return page

    yield show
    for context in contexts:
        context.close()


def pixels(page, selector: str, what: str) -> float:
    """A length of the style that an element has in the end."""
    found = page.evaluate(f"getComputedStyle(document.querySelector('{selector}')).{what}")
    return float(found.removesuffix("px"))


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("width", [390, 1280])
def test_a_page_is_as_wide_as_its_window(seen, name, width):
    page = seen(name, width)
    assert page.evaluate("document.documentElement.scrollWidth") == page.evaluate("window.innerWidth") == width
    assert pixels(page, ".verdict .foot", "fontSize") >= 11  # the smallest text


def test_the_hints_of_feedback_look_as_if_they_open_and_do(seen):
    page = seen("feedback", 1280)
    hint = page.locator("details").first
    assert page.evaluate("getComputedStyle(document.querySelector('summary')).display") == "list-item"
    assert not hint.locator("p").is_visible()
    hint.locator("summary").click()
    assert hint.locator("p").is_visible()


def test_the_cells_of_the_table_of_points_do_not_touch(seen):
    page = seen("feedback", 1280)
    assert pixels(page, ".text_cell_render td", "paddingRight") >= 8
