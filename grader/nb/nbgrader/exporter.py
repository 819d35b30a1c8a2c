"""Where nbgrader reads a submission: instead of parsing what was handed in, graft it onto the released notebook."""

import fnmatch
import glob
import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import nbformat
from nbconvert.exporters import NotebookExporter
from nbconvert.exporters.exporter import ResourcesDict
from nbformat import NotebookNode

from grader.sandbox import safe_read
from grader.submission import Unreadable, notebook_cells

from . import graft, lock, states


class NotReleased(Exception):
    """The staff's notebook is not there to graft onto."""


class Submissions(NotebookExporter):
    """nbgrader's exporter for both steps of autograding: reads what students sent, then what it wrote itself.

    It also completes the converter's list of work: every notebook of the assignment is graded for every student who
    has a folder, so that one that is missing, renamed or unreadable ends in a state with feedback instead of vanishing.
    And it clears away what a run left that was killed: nbgrader takes any folder for a student who is done.
    """

    def __init__(self, config=None, **kw):
        super().__init__(config=config, **kw)
        if hasattr(self.parent, "assignments"):
            _work_alone(self.parent)

    def from_filename(self, filename: str, resources: ResourcesDict | None = None, **kw):
        """What nbconvert asks of an exporter; never raises at a submission."""
        course = self.parent.coursedir
        resources["nbgrader"]["root"] = course.root
        if not self.parent._sanitizing:
            return super().from_filename(filename, resources=resources, **kw)
        names = resources["nbgrader"]
        released = released_notebook(course, names["assignment"], names["notebook"])
        path = Path(filename)
        resources.setdefault("metadata", ResourcesDict()).update(name=path.stem, path=str(path.parent))
        return self.from_notebook_node(take_in(filename, released), resources=resources, **kw)


def released_notebook(course, assignment: str, notebook: str) -> NotebookNode:
    """As handed out. Raises NotReleased."""
    path = Path(course.format_path(course.release_directory, ".", assignment)) / f"{notebook}.ipynb"
    if not path.is_file():
        raise NotReleased(f"{path} is not there: run `nbgrader generate_assignment {assignment}` first")
    return nbformat.read(path, 4)


def take_in(path: str, released: NotebookNode) -> NotebookNode:
    """The file as a notebook that is safe to work on; `metadata.grading.state` says whether there are answers in it."""
    notes = []
    if not os.path.lexists(path):
        if (other := _renamed(path, released)) is None:
            return _without(released, states.MISSING, f"{os.path.basename(path)} was not handed in.")
        notes = [f"{os.path.basename(path)} was handed in as {os.path.basename(other)!r}."]
        path = other
    try:
        cells = _read(path)
    except Unreadable as e:
        return _without(released, states.UNREADABLE, str(e))
    out = graft.grafted(released, cells)
    out.metadata[graft.KEY] |= {"state": states.GRADED, "message": ""}
    out.metadata[graft.KEY].notes = [*notes, *out.metadata[graft.KEY].notes]
    return out


def _read(path: str) -> list[safe_read.Cell]:
    """All cells. Unreadable says why not; it names the file, not where it lies: students see that sentence."""
    folder, name = os.path.split(path)
    try:
        raw = safe_read.read_file(name, root=folder)
    except safe_read.Rejected as e:
        raise Unreadable(str(e)) from None
    return notebook_cells(name, raw, copies=True)


def _without(released: NotebookNode, state: str, message: str) -> NotebookNode:
    out = graft.untouched(released)
    out.metadata[graft.KEY] |= {"state": state, "message": message}
    return out


def _renamed(path: str, released: NotebookNode) -> str | None:
    """The one other notebook in the folder that has cells of this one, if there is exactly one."""
    ours = {name for c in released.cells if (name := graft.grade_id(c))}
    folder, found = os.path.dirname(path), []
    for name in sorted(os.listdir(folder) if os.path.isdir(folder) else ())[:100]:
        other = os.path.join(folder, name)
        if name.endswith(".ipynb") and other != path:
            try:
                if ours & {c.grade_id for c in _read(other)}:
                    found.append(other)
            except Unreadable:
                continue
    return found[0] if len(found) == 1 else None


def _work_alone(converter) -> None:
    """Have the converter do its work while nobody else works in the course: else it ends with one sentence."""
    convert = converter.convert_notebooks

    def convert_alone() -> None:
        try:
            with lock.alone(converter.coursedir.root):
                _complete(converter)
                convert()
        except lock.Busy as e:
            converter.log.error(str(e))
            raise

    converter.convert_notebooks = convert_alone


def _complete(converter) -> None:
    """Add what should be there to what nbgrader found."""
    course = converter.coursedir
    folder = Path(course.format_path(course.release_directory, ".", course.assignment_id))
    wanted = {p.name for p in folder.glob("*.ipynb") if fnmatch.fnmatch(p.stem, course.notebook_id)}
    submitted = course.format_path(course.submitted_directory, course.student_id, course.assignment_id)
    for place in _folders(submitted):
        there = converter.assignments.get(place, [])
        names = {os.path.basename(path) for path in there}
        done = course.format_path(course.autograded_directory, Path(place).parts[-2], course.assignment_id)
        if os.path.isdir(done) and not is_finished(done, wanted):
            shutil.rmtree(done)
        converter.assignments[place] = [*there, *(os.path.join(place, name) for name in sorted(wanted - names))]


def is_finished(folder: str, notebooks: Iterable[str]) -> bool:
    """All of these are in the folder of a student, and judged. The gradebook has their marks before they are written."""
    for name in notebooks:
        try:
            notebook = json.loads(Path(folder, name).read_text(encoding="utf-8"))
        except (OSError, ValueError):  # not there yet, or half of it
            return False
        about = notebook["metadata"].get(graft.KEY)
        if about is not None and "results" not in about:  # taken in; None: graded by somebody else
            return False
    return True


def _folders(pattern: str) -> list[str]:
    return [path for path in glob.glob(pattern) if os.path.isdir(path)]
