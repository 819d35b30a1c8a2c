"""`nbgrader export`: nbgrader's columns, and the state of each submission; what nobody marked has no score."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

from nbgrader.api import Gradebook, MissingEntry
from nbgrader.plugins import ExportPlugin

from . import graft, states

COLUMNS = (
    "assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email",
    "raw_score", "late_submission_penalty", "score", "max_score", "state", "details",
)  # fmt: skip


class StatesCsv(ExportPlugin):
    """CSV. An error of the grader, an unreadable file or nothing handed in is a word, never a 0."""

    def export(self, gradebook: Gradebook) -> None:
        """Write to the file that --to names."""
        with open(self.to or "grades.csv", "w", newline="", encoding="utf-8") as out:
            writer = csv.DictWriter(out, COLUMNS)
            writer.writeheader()
            writer.writerows(rows(gradebook, self.parent.coursedir, set(self.assignment), set(self.student)))


def rows(gradebook: Gradebook, course, assignments: set = frozenset(), students: set = frozenset()) -> Iterator[dict]:
    """One row a student and assignment; empty sets mean all."""
    for assignment in gradebook.assignments:
        for student in gradebook.students:
            if (not assignments or assignment.name in assignments) and (not students or student.id in students):
                yield _row(gradebook, course, assignment, student)


def _row(gradebook, course, assignment, student) -> dict:
    state, verdicts = state_of(course, assignment.name, student.id)
    row = {
        "assignment": assignment.name,
        "duedate": assignment.duedate,
        "student_id": student.id,
        "last_name": student.last_name,
        "first_name": student.first_name,
        "email": student.email,
        "max_score": assignment.max_score,
        "state": state,
        "details": "; ".join(dict.fromkeys(f"{word}, {said}" for word, said in verdicts if word != "AC")),
    }
    try:
        submission = gradebook.find_submission(assignment.name, student.id)
    except MissingEntry:
        return row
    row["timestamp"] = submission.timestamp
    if _is_marked(submission):
        penalty = submission.late_submission_penalty or 0.0
        row["raw_score"], row["late_submission_penalty"] = submission.score, penalty
        row["score"] = max(0.0, submission.score - penalty)
    return row


def _is_marked(submission) -> bool:
    """Every cell has got points from the grader or from a person."""
    grades = [g for notebook in submission.notebooks for g in notebook.grades]
    return all(g.auto_score is not None or g.manual_score is not None for g in grades)


def state_of(course, assignment: str, student: str) -> tuple[str, list[tuple[str, str]]]:
    """(state of one student's assignment, its verdicts).

    A verdict is its word, which is the code or, where there is none, the state, and a sentence with the notebook's name.
    """
    autograded = Path(course.format_path(course.autograded_directory, student, assignment))
    found, verdicts = [], []
    for path in sorted(autograded.glob("*.ipynb")):
        try:
            about = json.loads(path.read_text(encoding="utf-8"))["metadata"].get(graft.KEY)
        except ValueError:
            return states.ERROR, [(states.ERROR, f"{path.name} is only half there: autograde it again")]
        if about is None:
            return states.ERROR, [(states.ERROR, f"{path.name} was not autograded by the grader")]
        found.append(about["state"])
        for mark in about.get("results", {}).values():
            said = mark["message"] if mark["message"].startswith(path.name) else f"{path.stem}: {mark['message']}"
            word = mark["code"] or mark["state"]
            verdicts.append((word, "".join(c if c.isprintable() else " " for c in said)))  # also goes to a terminal
    if found:
        return states.worst(found), verdicts
    submitted = Path(course.format_path(course.submitted_directory, student, assignment))
    if submitted.is_dir():
        return states.ERROR, [(states.ERROR, "handed in, but not autograded")]
    return states.MISSING, [(states.MISSING, "nothing was handed in")]
