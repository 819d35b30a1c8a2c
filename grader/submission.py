"""Read what a student handed in, without running or trusting any of it."""

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from grader import problems

MAX_BYTES = 16 << 20
MAX_CELLS = 2000
_DECLARED = re.compile(r"^#\s*exercise:\s*(\S+)\s*$", re.MULTILINE)
_SKIPPED_FOLDERS = {"__pycache__", ".ipynb_checkpoints"}


class Unreadable(ValueError):
    """A file that cannot be taken as a submission; the text is one sentence for its author."""


@dataclass(frozen=True)
class Cell:
    """A piece of student code that is run on its own."""

    label: str  # "submission.py" or "cell 3"; line numbers count from its start
    source: str


@dataclass(frozen=True)
class Submission:
    """The code of one file."""

    path: str  # as given
    cells: tuple[Cell, ...]
    exercises: tuple[str, ...]  # that it says it answers; empty: it does not say
    digest: str  # SHA-256 of the file

    @property
    def is_empty(self) -> bool:
        """No code at all."""
        return not any(c.source.strip() for c in self.cells)


def walk(paths: list[str]) -> Iterator[str]:
    """The .py and .ipynb files among and below the given paths, in order; what is not there comes as it is."""
    for path in paths:
        if not os.path.isdir(path):
            yield path
            continue
        for folder, folders, files in os.walk(path):
            folders[:] = sorted(f for f in folders if f not in _SKIPPED_FOLDERS)
            for name in sorted(files):
                if name.endswith((".py", ".ipynb")) and not name.startswith("."):
                    yield os.path.join(folder, name)


def read(path: str) -> Submission:
    """Take a .py or .ipynb from disk. Unreadable says why not."""
    if not path.endswith((".py", ".ipynb")):
        raise Unreadable(f"{path} is neither a .py file nor a notebook (.ipynb)")
    return parse(path, _read_bytes(path))


def parse(path: str, raw: bytes) -> Submission:
    """A submission from the bytes of a file of that name. Unreadable says why not."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Unreadable(f"{path} is not text in UTF-8") from None
    if path.endswith(".ipynb"):
        cells, declared = _notebook(path, text)
    else:
        cells, declared = (Cell("submission.py", text),), _DECLARED.findall(text[:4000])
    return Submission(path, cells, tuple(_exercises(path, declared)), hashlib.sha256(raw).hexdigest())


def _read_bytes(path: str) -> bytes:
    """The whole file, if it is a regular one of sane size; never waits on a pipe, never follows a link."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise Unreadable(f"{path} does not exist") from None
    except OSError as e:
        raise Unreadable(f"{path} cannot be read: {e.strerror}") from None
    with open(fd, "rb") as f:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable(f"{path} is not a regular file")
        if status.st_size > MAX_BYTES:
            raise Unreadable(f"{path} has {status.st_size >> 20} MB; at most {MAX_BYTES >> 20} MB are read")
        return f.read(MAX_BYTES + 1)[: MAX_BYTES + 1]


def _notebook(path: str, text: str) -> tuple[tuple[Cell, ...], list[str]]:
    try:
        book = json.loads(text)
    except (ValueError, RecursionError):
        raise Unreadable(f"{path} is not a notebook: it is not valid JSON") from None
    cells = book.get("cells") if isinstance(book, dict) else None
    if not isinstance(cells, list) or len(cells) > MAX_CELLS:
        raise Unreadable(f"{path} is not a notebook: it has no list of at most {MAX_CELLS} cells")
    found = []
    for number, cell in enumerate((c for c in cells if _is_code(c)), start=1):
        source = cell.get("source", "")
        if isinstance(source, list):
            source = "".join(s for s in source if isinstance(s, str))
        if isinstance(source, str) and not _is_test(cell):
            found.append(Cell(f"cell {number}", source))
    return tuple(found), _declared_in(book)


def _is_code(cell: object) -> bool:
    return isinstance(cell, dict) and cell.get("cell_type") == "code"


def _is_test(cell: dict) -> bool:
    """nbgrader's own test cells: they call the checker, which has no business in the sandbox."""
    meta = cell.get("metadata")
    mark = meta.get("nbgrader") if isinstance(meta, dict) else None
    return isinstance(mark, dict) and mark.get("grade") is True and mark.get("solution") is not True


def _declared_in(book: dict) -> list[str]:
    """`metadata.grader.exercise` (a name) or `.exercises` (a list of names)."""
    meta = book.get("metadata")
    ours = meta.get("grader") if isinstance(meta, dict) else None
    if not isinstance(ours, dict):
        return []
    named = ours.get("exercises", ours.get("exercise", []))
    return [n for n in ([named] if isinstance(named, str) else named) if isinstance(n, str)]


def _exercises(path: str, declared: list[str]) -> list[str]:
    """Declared names that exist, else what the file's or a folder's name speaks of, nearest first."""
    if declared:
        known = []
        for name in declared:
            try:
                known.append(problems.get(name).name)
            except problems.UnknownExercise as e:
                raise Unreadable(f"{path} says it answers {name!r}: {e}") from None
        return list(dict.fromkeys(known))
    here = Path(path)
    for label in (here.stem, *(p.name for p in here.absolute().parents)):
        if found := problems.find(label):
            return [found]
    return []
