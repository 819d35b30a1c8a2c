"""One autograding at a time in a course, whoever started it: two would clear away each other's folders as half done."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from nbgrader.converters.base import NbGraderException

_ours: set[str] = set()  # courses that this process has locked


class Busy(NbGraderException):
    """Another process is at work in the course; the text is one sentence."""


@contextmanager
def alone(root: str) -> Iterator[None]:
    """A lock on the course; within it, the same process may ask again. It ends with its process at the latest.

    Raises Busy.
    """
    root = os.path.realpath(root)
    if root in _ours:
        yield
        return
    folder = os.open(root, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _lock(folder, root)
        _ours.add(root)
        yield
    finally:
        _ours.discard(root)
        os.close(folder)


def _lock(folder: int, root: str) -> None:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        said = (
            f"another `grader autograde` or `nbgrader autograde` is at work in {root}: run this one when it has ended"
        )
        raise Busy(said) from None
    except OSError:  # a file system without locks
        pass
