"""Findings about what the host asks for: where in the program it did so."""

import sys
import sysconfig
from pathlib import Path

from .findings import Finding

# Folders, each with a separator at its end: a program in "grader2" beside "grader" is not ours.
_LIBRARIES = tuple(f"{Path(sysconfig.get_paths()[key])}/" for key in ("stdlib", "purelib", "platlib"))
_OURSELVES = f"{Path(__file__).parents[2]}/"  # a replay has no line of a program either
_KIT = f"{_OURSELVES}kit/"
_DRIVER = f"{_OURSELVES}vgpu/"


_told: tuple[str, int] | None = None


def tell_place(place: tuple[str, int] | None) -> None:
    """What is asked for from now on was asked for there, in the program that is replayed; None: no replay."""
    global _told
    _told = place


def place() -> tuple[str, int]:
    """File and line of the innermost frame that is neither ours nor a library's; ("", 0) when there is none."""
    if _told is not None:
        return _told
    frame = sys._getframe(1)
    while frame is not None:
        if _of_program(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return "", 0


def place_among(stack: list[tuple[str, int]]) -> tuple[str, int] | None:
    """The same of a stack, (file, line) of each frame, innermost first; None when we ourselves are what it does.

    A replay does what the program's host did, but does not know at which of its lines.
    """
    for file, line in stack:
        if file.startswith(_OURSELVES) and not file.startswith(_KIT):
            return ("", 0) if _told is not None and not file.startswith(_DRIVER) else None
        if _of_program(file):
            return file, line
    return "", 0


def _of_program(file: str) -> bool:
    return not file.startswith((*_LIBRARIES, _OURSELVES, "<"))


def finding(tool: str, kind: str, message: str) -> Finding:
    """A finding at the line of the program that is being executed on the host."""
    file, line = place()
    return Finding(tool, kind, message, line, file)
