"""The whole class, autograded once."""

import contextlib
import io
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import handins
import pytest
from nbgrader.api import Gradebook

from grader import bench
from grader.nb.nbgrader import autograde


@dataclass(frozen=True)
class Class:
    """A course whose submissions have been graded."""

    root: Path
    students: handins.Students
    status: int
    printed: str

    def grade(self, student: str, unit: str = handins.UNIT) -> tuple[float | None, bool]:
        """(auto_score, needs_manual_grade) of the one test cell."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Gradebook(f"sqlite:///{self.root}/gradebook.db") as gradebook:
                grade = gradebook.find_grade("00_mend", "mend", unit, student)
                return grade.auto_score, grade.needs_manual_grade

    def feedback(self, student: str) -> str:
        return (self.root / "feedback" / student / handins.UNIT / "mend.html").read_text()


@pytest.fixture(scope="session")
def graded(tmp_path_factory) -> Class:
    """Everyone in `handins`, by `grader autograde --jobs 2 --feedback`."""
    root = tmp_path_factory.mktemp("course")
    handins.make_course(root)
    handins.nbgrader(root, "generate_assignment", handins.UNIT)
    students = handins.Students(root)
    for _, _, hand_in in handins.EXPECTED.values():
        hand_in(students)
    printed, limits = io.StringIO(), bench.LIMITS
    bench.LIMITS = replace(limits, cpu_s=8, wall_s=300)  # who loops is ended by the former
    try:
        with contextlib.redirect_stdout(printed):
            status = autograde.main(handins.UNIT, root, jobs=2, feedback=True)
    finally:
        bench.LIMITS = limits
    return Class(root, students, status, printed.getvalue())
