"""Put a student's cells onto the released notebook.

The frame is the staff's: every cell that nbgrader knows (answers, tests, locked cells) stands once, in its order, with
its own metadata. Into it go the student's answers, and the student's other cells behind the known cell that they
followed. So a test cell that was edited, deleted or copied is simply there; an answer that was split or copied runs in
the student's order, the last one being the answer; and cells without metadata run like any others.

Code cells get the number that they have in the student's notebook as their execution count: feedback shows `In [3]`
where a message says "cell 3".
"""

import copy
import re
from collections.abc import Sequence

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from grader.sandbox.safe_read import Cell

KEY = "grading"  # in the metadata of a grafted notebook; never taken from a submission
ABSENT = "This answer was not found in the notebook that was handed in."
_DEFINES = re.compile(r"^\s*(?:def|class)\s", re.MULTILINE)


def grafted(released: NotebookNode, cells: Sequence[Cell]) -> NotebookNode:
    """A new notebook; its `metadata.grading` holds `notes`, sentences on what was put right."""
    frame = {c.metadata.nbgrader.grade_id: c for c in released.cells if grade_id(c)}
    numbers = {c.index: n for n, c in enumerate((c for c in cells if c.cell_type == "code"), start=1)}
    owner, others, notes = _sort(frame, cells)
    out = new_notebook_like(released)
    out.cells = [_plain(c, numbers) for c in others[None]]
    for name, theirs in frame.items():
        out.cells.append(_known(theirs, owner.get(name), numbers))
        out.cells += [_plain(c, numbers) for c in others[name]]
    out.metadata[KEY] = {"notes": [*notes, *_lost(frame, owner)]}
    return out


def untouched(released: NotebookNode) -> NotebookNode:
    """The released notebook with no answers in it: what is shown when there is no submission to show."""
    out = new_notebook_like(released)
    out.cells = [_known(c, None, {}) if grade_id(c) else copy.deepcopy(c) for c in released.cells]
    out.metadata[KEY] = {"notes": []}
    return out


def new_notebook_like(released: NotebookNode) -> NotebookNode:
    """Same metadata, no cells."""
    out = copy.copy(released)
    out.metadata, out.cells = copy.deepcopy(released.metadata), []
    return out


def grade_id(cell: NotebookNode) -> str | None:
    """nbgrader's name of a cell of the staff's."""
    return cell.metadata.get("nbgrader", {}).get("grade_id")


def is_answer(cell: NotebookNode) -> bool:
    """The student writes here."""
    return bool(cell.metadata.get("nbgrader", {}).get("solution"))


def _sort(frame: dict, cells: Sequence[Cell]) -> tuple[dict[str, Cell], dict[str | None, list[Cell]], list[str]]:
    """(the cell that each known cell is, the others by the known cell that they follow, notes)."""
    by_text = {c.source.strip(): name for name, c in frame.items() if not is_answer(c)}
    names = [c.grade_id if c.grade_id in frame else by_text.get(c.source.strip()) for c in cells]
    last = {name: c for name, c in zip(names, cells, strict=True) if name}
    others: dict[str | None, list[Cell]] = {None: [], **{name: [] for name in frame}}
    owner, notes, after = {}, [], None
    for name, cell in zip(names, cells, strict=True):
        if name is None:
            others[after].append(cell)
        elif is_answer(frame[name]):
            if cell is last[name]:
                owner[name] = cell
                after = name
            else:
                others[after].append(cell)
                notes.append(f"The answer {name} is there more than once: all copies are run, in your order.")
        else:
            if cell.source.strip() != frame[name].source.strip():
                notes.append(f"The cell {name} was changed; it was put back as it was handed out.")
                if _DEFINES.search(cell.source):  # an answer that was merged into it
                    others[after].append(cell)
            owner[name] = cell
            after = name
    return owner, others, list(dict.fromkeys(notes))


def _lost(frame: dict, owner: dict) -> list[str]:
    notes = []
    for name, cell in frame.items():
        if name not in owner:
            what = "answer" if is_answer(cell) else "cell"
            kept = "your other cells were graded" if is_answer(cell) else "it was put back"
            notes.append(f"The {what} {name} was not found by its mark; {kept}.")
    return notes


def _known(theirs: NotebookNode, cell: Cell | None, numbers: dict[int, int]) -> NotebookNode:
    out = copy.deepcopy(theirs)
    if out.cell_type == "code":
        out.outputs, out.execution_count = [], numbers.get(cell.index) if cell else None
    if is_answer(theirs):
        out.source = cell.source if cell else f"# {ABSENT}" if out.cell_type == "code" else ABSENT
    return out


def _plain(cell: Cell, numbers: dict[int, int]) -> NotebookNode:
    if cell.cell_type == "code":
        out = new_code_cell(cell.source, execution_count=numbers[cell.index])
    else:
        out = new_markdown_cell(cell.source)
    out.id = f"own-{cell.index}"
    return out
