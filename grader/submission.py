"""Read what a student handed in, without running or trusting any of it."""

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from grader import problems
from grader.sandbox import safe_read
from grader.sandbox.json_skim import NotJson, Skimmer

MAX_METADATA = 64 << 10
_DECLARED = re.compile(r"^#\s*exercise:\s*(\S+)\s*$", re.MULTILINE)
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz")
_SKIPPED_FOLDERS = {"__pycache__", ".ipynb_checkpoints", "__MACOSX"}


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


def walk(paths: list[str]) -> Iterator[str]:
    """The .py and .ipynb files among and below the given paths, in order; what is not there comes as it is."""
    for path in paths:
        if not os.path.isdir(path):
            yield path
            continue
        folders = [path]
        while folders:  # os.walk calls itself for every level: a thousand of them would end the command
            folder = folders.pop()
            entries = _listed(folder)
            for entry in entries:
                if not entry.is_dir() and entry.name.endswith((".py", ".ipynb")) and not entry.name.startswith("."):
                    yield os.path.join(folder, entry.name)
            folders += [
                entry.path
                for entry in reversed(entries)
                if entry.is_dir(follow_symlinks=False) and entry.name not in _SKIPPED_FOLDERS
            ]


def _listed(folder: str) -> list[os.DirEntry]:
    """What is in it, by name; nothing in one that cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def read(path: str) -> Submission:
    """Take a .py or .ipynb from disk. Unreadable says why not."""
    if not path.endswith((".py", ".ipynb")):
        raise Unreadable(f"{path} is neither a .py file nor a notebook (.ipynb) nor an archive ({', '.join(ARCHIVES)})")
    try:
        raw = safe_read.read_file(
            path, max_mb=safe_read.NOTEBOOK_MB if path.endswith(".ipynb") else safe_read.SCRIPT_MB
        )
    except safe_read.Rejected as e:
        raise Unreadable(str(e)) from None
    return parse(path, raw)


def unpack(path: str) -> dict[str, bytes]:
    """The .py and .ipynb files of an archive, by the archive's path and theirs in it; nothing is written to disk.

    Unreadable says why not: links, names that lead out, and more than `safe_read` allows are refused as a whole.
    """
    try:
        files = safe_read.read_archive(path)
    except safe_read.Rejected as e:
        raise Unreadable(str(e)) from None
    wanted = {name: raw for name, raw in sorted(files.items()) if _is_handed_in(name)}
    if not wanted:
        raise Unreadable(f"{path} holds no .py file and no notebook")
    return {f"{path}/{name}": raw for name, raw in wanted.items()}


def _is_handed_in(name: str) -> bool:
    *folders, last = name.split("/")
    return not last.startswith(".") and not _SKIPPED_FOLDERS.intersection(folders)


def parse(path: str, raw: bytes) -> Submission:
    """A submission from the bytes of a file of that name. Unreadable says why not."""
    if path.endswith(".ipynb"):
        cells, declared = _notebook(path, raw)
    else:
        _not_empty(path, raw)
        try:
            text = safe_read.read_script(raw)
        except safe_read.Rejected as e:
            raise Unreadable(f"{path} is not a script that can be graded: {e}") from None
        cells, declared = (Cell("submission.py", text),), _DECLARED.findall(text[:4000])
    return Submission(path, cells, tuple(_exercises(path, declared)), hashlib.sha256(raw).hexdigest())


def notebook_cells(name: str, raw: bytes, *, copies: bool = False) -> list[safe_read.Cell]:
    """All cells of a notebook, from the bytes of a file of that name; `copies`: a grade_id may be there more than once.

    Unreadable says why not, here and under nbgrader in the same words.
    """
    _not_empty(name, raw)
    try:
        return safe_read.read_cells(raw, copies=copies)
    except safe_read.Rejected as e:
        raise Unreadable(f"{name} is not a notebook that can be graded: {e}") from None


def _not_empty(name: str, raw: bytes) -> None:
    if not raw.strip():
        raise Unreadable(f"{name} cannot be graded: the file is empty")


def _notebook(path: str, raw: bytes) -> tuple[tuple[Cell, ...], list[str]]:
    cells = [c for c in notebook_cells(path, raw) if c.cell_type == "code"]
    # nbgrader's own test cells call the checker, which has no business in the sandbox.
    ours = [(n, c) for n, c in enumerate(cells, start=1) if not (c.grade and not c.solution)]
    return tuple(Cell(f"cell {n}", c.source) for n, c in ours), _declared_in(raw.decode())


def _declared_in(text: str) -> list[str]:
    """The notebook's `metadata.grader.exercise` (a name) or `.exercises` (a list of names)."""
    skimmer = Skimmer(text)
    spans = dict(skimmer.document())
    try:
        meta = skimmer.value(spans["metadata"], MAX_METADATA) if "metadata" in spans else {}
    except NotJson:
        return []
    ours = meta.get("grader") if isinstance(meta, dict) else None
    if not isinstance(ours, dict):
        return []
    named = ours.get("exercises", ours.get("exercise", []))
    named = [named] if isinstance(named, str) else named
    return [n for n in named if isinstance(n, str)] if isinstance(named, list) else []


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
    found = named_by(path)
    return [found] if found else []


def named_by(path: str) -> str | None:
    """The exercise that the file's name or a folder's speaks of, nearest first."""
    here = Path(path)
    labels = (here.stem, *(p.name for p in here.absolute().parents))
    return next((found for label in labels if (found := problems.find(label))), None)
