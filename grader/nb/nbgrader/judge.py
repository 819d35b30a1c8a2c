"""The autograde step: verdicts in place of what a kernel printed."""

import hashlib
import html
import os
import re
from collections.abc import Iterator

from nbformat import NotebookNode
from nbformat.v4 import new_output
from nbgrader import utils
from nbgrader.preprocessors import NbGraderPreprocessor, SaveAutoGrades
from traitlets import Bool, Unicode

from grader import problems
from grader.problems import Problem
from grader.report.html import fragment
from grader.submission import Cell, Submission

from . import desk, graft, states
from .states import Mark

_ONLY_CHECKS = re.compile(r"(\s*check\([^()]*\))+\s*")
_CHECK = re.compile(r"\bcheck\(\s*[\"']([\w-]+)[\"']")


class Judge(NbGraderPreprocessor):
    """Gives each test cell of an exercise the verdict of the grader as its output."""

    device = Unicode("auto", help="what to grade on: auto, cuda[:N] or virtual[:NAME]").tag(config=True)
    results = Unicode("grader-results.db", help="where results are kept, below the course's root").tag(config=True)
    trust_submissions = Bool(False, help="grade where this machine cannot lock submissions in").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        """Judge one notebook that `exporter.take_in` made."""
        about = nb.metadata[graft.KEY]
        names = resources["nbgrader"]
        marks, notes, failed = {}, list(about.notes), []
        if about.state == states.GRADED:
            path = "/".join((names["student"], names["assignment"], names["notebook"] + ".ipynb"))
            counter = desk.shared(self.device, self.trust_submissions)
            store = os.path.join(names["root"], self.results)
            for cell, problem, submission in questions(nb, path):
                record = counter.judge(submission, problem, store)
                marks[graft.grade_id(cell)] = mark = states.of_record(record, cell.metadata.nbgrader.points)
                cell.outputs = [_verdict(record, mark, notes)]
                failed, notes = record["failed_cells"], []
                if record["code"] == "IE":
                    self.log.error("%s: %s\n%s", path, record["message"], record["output"])
        else:
            score, code = (0.0, "") if about.state == states.MISSING else (None, "CE")
            for cell in (c for c in nb.cells if utils.is_grade(c)):
                marks[graft.grade_id(cell)] = mark = Mark(about.state, score, code, about.message)
                if cell.cell_type == "code":
                    cell.outputs = [_said(mark, notes)]
        _show_failures(nb, failed)
        about.results = {name: mark.to_dict() for name, mark in marks.items()}
        about.state = states.worst([about.state, *(m.state for m in marks.values())])
        return nb, resources


class SaveVerdicts(SaveAutoGrades):
    """Writes the marks of the verdicts into the gradebook; outputs are for people to look at."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        """Save every mark of one notebook."""
        self._results = nb.metadata[graft.KEY].results
        return super().preprocess(nb, resources)

    def _add_score(self, cell: NotebookNode, resources: dict) -> None:
        grade = self.gradebook.find_grade(graft.grade_id(cell), self.notebook_id, self.assignment_id, self.student_id)
        mark = self._results.get(graft.grade_id(cell))
        if mark is None and utils.is_solution(cell):
            super()._add_score(cell, resources)
            return
        if mark is None:
            self.log.warning("%s names no exercise of the grader: to be marked by hand", graft.grade_id(cell))
        grade.auto_score = mark["score"] if mark else None
        grade.needs_manual_grade = grade.manual_score is not None or grade.auto_score is None
        self.gradebook.db.commit()


def test_cells(nb: NotebookNode) -> list[NotebookNode]:
    """Cells whose points a program gives."""
    return [c for c in nb.cells if c.cell_type == "code" and utils.is_grade(c) and not utils.is_solution(c)]


def exercise_of(cell: NotebookNode) -> Problem | None:
    """The exercise that a test cell checks, by its text or its grade_id; None: not one of the grader's."""
    named = _CHECK.search(cell.source)
    name = named[1] if named else problems.find(graft.grade_id(cell))
    try:
        return problems.get(name) if name else None
    except problems.UnknownExercise:
        return None


def questions(nb: NotebookNode, path: str) -> Iterator[tuple[NotebookNode, Problem, Submission]]:
    """What is to be judged in a grafted notebook: test cell, exercise, and the answer's code."""
    tests = test_cells(nb)
    code = [c for c in nb.cells if c.cell_type == "code" and not any(c is t for t in tests)]
    code = [c for c in code if not _ONLY_CHECKS.fullmatch(c.source)]  # the checker is not in the sandbox
    cells = tuple(Cell(_label(c), c.source) for c in code)
    digest = hashlib.sha256("\0".join(f"{c.label}\0{c.source}" for c in cells).encode()).hexdigest()
    for cell in tests:
        if problem := exercise_of(cell):
            yield cell, problem, Submission(path, cells, (problem.name,), digest)


def _label(cell: NotebookNode) -> str:
    return f"cell {cell.execution_count or cell.id}"


def _show_failures(nb: NotebookNode, failed: list[str]) -> None:
    """What a cell raised, below it."""
    said = dict(line.split(": ", 1) for line in failed if ": " in line)
    for cell in nb.cells:
        if cell.cell_type == "code" and not utils.is_grade(cell) and (text := said.get(_label(cell))):
            cell.outputs = [new_output("stream", name="stderr", text=text + "\n")]


def _verdict(record: dict, mark: Mark, notes: list[str]) -> NotebookNode:
    if record["code"] == "IE":  # says more about this machine than a student should know
        return _said(mark, notes)
    return _output(mark, _paragraphs(notes) + fragment(record))


def _said(mark: Mark, notes: list[str]) -> NotebookNode:
    said = f"<p><b>{mark.state}</b>: {html.escape(mark.message)}</p>"
    return _output(mark, _paragraphs(notes) + said)


def _output(mark: Mark, page: str) -> NotebookNode:
    """A result that also nbgrader's own reading of outputs takes for these points."""
    data = {"text/html": page, "text/plain": f"{mark.score or 0.0:.4f}"}
    return new_output("execute_result", data, execution_count=None)


def _paragraphs(notes: list[str]) -> str:
    return "".join(f"<p><i>{html.escape(note)}</i></p>" for note in notes)
