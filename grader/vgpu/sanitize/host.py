"""Findings about what the host asks for: where in the program it did so."""

import sys
import sysconfig
from pathlib import Path

from .findings import Finding

_LIBRARIES = tuple(str(Path(sysconfig.get_paths()[key])) for key in ("stdlib", "purelib", "platlib"))
_OURSELVES = str(Path(__file__).parents[2])  # a replay has no line of a program either


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
        name = frame.f_code.co_filename
        if not name.startswith((*_LIBRARIES, _OURSELVES, "<")):
            return name, frame.f_lineno
        frame = frame.f_back
    return "", 0


def finding(tool: str, kind: str, message: str) -> Finding:
    """A finding at the line of the program that is being executed on the host."""
    file, line = place()
    return Finding(tool, kind, message, line, file)
