"""The exercises, one folder each: `problem.py` says what is asked, `baseline.py` and `reference.py` are kernels.

To add one: copy a folder, rename it to <unit>_<name>, and edit. `grader check-course` tells what is still missing.
"""

import re
from functools import cache
from importlib import import_module
from pathlib import Path

from grader.problems.model import Problem

__all__ = ["Problem", "UnknownExercise", "find", "get", "names"]


class UnknownExercise(LookupError):
    """No exercise has that name; the text lists those that exist."""


@cache
def names() -> tuple[str, ...]:
    """Every exercise, in the order of the course."""
    here = Path(__file__).parent
    return tuple(sorted(p.parent.name for p in here.glob("[0-9][0-9]_*/problem.py")))


@cache
def get(name: str) -> Problem:
    """The exercise of that name: "02_transpose", or "transpose" where that is unique. Else UnknownExercise.

    ValueError if what its folder holds goes by another name.
    """
    matches = [n for n in names() if name in (n, n[3:])]
    if len(matches) != 1:
        raise UnknownExercise(f"no exercise {name!r}; there are {', '.join(names())}")
    problem = import_module(f"grader.problems.{matches[0]}.problem").PROBLEM
    if problem.name != matches[0]:
        raise ValueError(f"grader/problems/{matches[0]}/problem.py has name={problem.name!r}: it must be the folder's")
    return problem


def find(label: str) -> str | None:
    """The exercise that a file or folder name speaks of: "transpose.py", "02-transpose_v2", None if none or several."""
    word = re.sub(r"[^a-z0-9]+", "_", label.lower()).strip("_")
    for spelled in (lambda n: n, lambda n: n[3:]):  # in full, else without its unit
        matches = [n for n in names() if re.search(rf"(^|_){spelled(n)}(_|$)", word)]
        if matches:
            return matches[0] if len(matches) == 1 else None
    return None
