"""Reads submissions from disk without trusting them: scripts, notebooks, archives. Nothing here executes anything.

Every refusal is a `Rejected` with one sentence that may be shown to the student.
"""

import errno
import gzip
import io
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from .json_skim import NotJson, Skimmer, Span
from .limits import MIB

NOTEBOOK_MB = 128  # mostly outputs, which are dropped unread
SCRIPT_MB = 1
ARCHIVE_MB = 64  # packed
UNPACKED_MB = 256  # all wanted files of an archive together
MAX_CELLS = 2000
MAX_ARCHIVE_ENTRIES = 1000

_METADATA_CHARACTERS = 64 << 10
_CELL_CHARACTERS = 1 << 20
_CELL_TYPES = ("code", "markdown", "raw")


class Rejected(ValueError):
    """The submission cannot be graded as it is; str() is one sentence that says why."""


@dataclass(frozen=True)
class Cell:
    """One cell of a notebook. Outputs and attachments are not kept."""

    index: int  # position in the notebook, from 0
    source: str
    grade_id: str | None  # nbgrader's name of the cell
    cell_type: str  # "code", "markdown" or "raw"
    solution: bool = False  # nbgrader: the student writes here
    grade: bool = False  # nbgrader: carries points
    locked: bool = False  # nbgrader: the student was not to change it
    points: float = 0.0


def read_file(path: str, root: str = "", max_mb: float = NOTEBOOK_MB) -> bytes:
    """Read a regular file of at most `max_mb` MiB.

    With `root`, the path is relative to it, may not leave it, and no part of it may be a symbolic link; without, only
    the last part may not. Raises Rejected.
    """
    try:
        fd = _open_beneath(root, path) if root else os.open(path, _FLAGS)
    except FileNotFoundError:
        raise Rejected(f"{_shown(path)} is missing.") from None
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in (errno.ELOOP, errno.EMLINK):  # Linux, BSD: O_NOFOLLOW
            raise Rejected(f"{_shown(path)} is a symbolic link, which is not followed: send the file itself.") from None
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise Rejected(f"{_shown(path)} cannot be opened safely ({reason}); links are not followed.") from None
    try:
        return _read_regular(fd, path, int(max_mb * MIB))
    finally:
        os.close(fd)


# O_NONBLOCK: opening a FIFO must not wait for a writer.
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def _open_beneath(root: str, path: str) -> int:
    parts = path.split("/")
    if any(part in ("", "..") for part in parts):
        raise ValueError("leaves its directory")
    directory = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in parts[:-1]:
        try:
            inner = os.open(part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        finally:
            os.close(directory)
        directory = inner
    try:
        return os.open(parts[-1], _FLAGS, dir_fd=directory)
    finally:
        os.close(directory)


def _read_regular(fd: int, path: str, cap: int) -> bytes:
    state = os.fstat(fd)
    if not stat.S_ISREG(state.st_mode):
        raise Rejected(f"{_shown(path)} is not a regular file.")
    raw = bytearray()
    while len(raw) <= cap and (data := os.read(fd, MIB)):
        raw += data
    if len(raw) > cap:
        size = max(state.st_size, len(raw))
        raise Rejected(f"{_shown(path)} has {size / MIB:.1f} MB; at most {cap / MIB:g} MB are read.")
    return bytes(raw)


def read_script(raw: bytes) -> str:
    """Decode a Python script: UTF-8 without null characters. Raises Rejected."""
    text = _decode(raw, "The script")
    if "\0" in text:
        raise Rejected("The script contains null characters.")
    return text.replace("\r\n", "\n").replace("\r", "\n")  # as Python itself reads it


def read_cells(raw: bytes, *, copies: bool = False) -> list[Cell]:
    """Give the cells of an nbformat-4 notebook; outputs and attachments are walked over, never built.

    Raises Rejected for what is no such notebook, for more than MAX_CELLS cells, and, unless `copies` are welcome, when
    two cells carry one grade id.
    """
    try:
        cells = _cells(Skimmer(_decode(raw, "The notebook")))
    except NotJson as error:
        raise Rejected(f"The notebook is not valid JSON as Jupyter writes it: {error}.") from None
    if not copies:
        _refuse_copies(cells)
    return cells


def _cells(notebook: Skimmer) -> list[Cell]:
    spans = _once(notebook.document(), ("cells", "nbformat"))
    version = notebook.value(spans["nbformat"], 20) if "nbformat" in spans else None
    if version != 4 or "cells" not in spans:
        raise Rejected("The notebook is not of nbformat 4; open it in a current Jupyter and save it again.")
    cells: list[Cell] = []
    for index, span in enumerate(notebook.elements(spans["cells"])):
        if index == MAX_CELLS:
            raise Rejected(f"The notebook has more than {MAX_CELLS} cells.")
        cells.append(_cell(notebook, index, span))
    return cells


def _once(members: Iterator[tuple[str, Span]], wanted: tuple[str, ...]) -> dict[str, Span]:
    """Pick members by name. A name given twice would mean one thing here and another to Jupyter."""
    found: dict[str, Span] = {}
    for name, span in members:
        if name in wanted:
            if name in found:
                raise NotJson(f"two members are called {name!r}")
            found[name] = span
    return found


def _cell(notebook: Skimmer, index: int, span: Span) -> Cell:
    spans = _once(notebook.members(span), ("cell_type", "source", "metadata"))
    cell_type = notebook.value(spans["cell_type"], 20) if "cell_type" in spans else None
    if cell_type not in _CELL_TYPES:
        raise Rejected(f"Cell {index} of the notebook is of no known type.")
    source = notebook.value(spans["source"], _CELL_CHARACTERS) if "source" in spans else ""
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    if not isinstance(source, str) or not _encodable(source):
        raise Rejected(f"The source of cell {index} of the notebook is not text.")
    cell = Cell(index, source, None, cell_type)
    metadata = notebook.value(spans["metadata"], _METADATA_CHARACTERS) if "metadata" in spans else {}
    marks = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    return _with_marks(cell, marks) if isinstance(marks, dict) else cell


def _with_marks(cell: Cell, marks: dict) -> Cell:
    grade_id, points = marks.get("grade_id"), marks.get("points", 0)
    return replace(
        cell,
        grade_id=grade_id if isinstance(grade_id, str) and grade_id and _encodable(grade_id) else None,
        points=float(points) if type(points) in (int, float) and 0 <= points <= 1e6 else 0.0,
        **{name: marks.get(name) is True for name in ("solution", "grade", "locked")},
    )


def _refuse_copies(cells: list[Cell]) -> None:
    first: dict[str, int] = {}
    for cell in cells:
        if cell.grade_id is not None:
            other = first.setdefault(cell.grade_id, cell.index)
            if other != cell.index:
                name = _shown(cell.grade_id)
                raise Rejected(f"Cells {other} and {cell.index} both carry the grade id {name}; delete the copy.")


def read_archive(path: str, root: str = "", suffixes: tuple[str, ...] = (".py", ".ipynb")) -> dict[str, bytes]:
    """Give the files in a .zip, .tar or .tar.gz whose names end as wanted, by their path in it. Others are left alone.

    Raises Rejected for links, encrypted or oddly packed files, names that lead out, and more than the limits above.
    """
    raw = read_file(path, root, ARCHIVE_MB)
    files: dict[str, bytes] = {}
    left = UNPACKED_MB * MIB
    try:
        for name, wanted, data in (_zipped if path.endswith(".zip") else _tarred)(raw, suffixes):
            if not wanted:
                continue
            if name in files:
                raise Rejected(f"The archive holds {_shown(name)} twice.")
            files[name] = data(min(left, (SCRIPT_MB if name.endswith(".py") else NOTEBOOK_MB) * MIB))
            left -= len(files[name])
    except Rejected as error:
        raise Rejected(f"{_shown(path)}: {error}") from None
    except _UNSOUND as error:
        raise Rejected(f"{_shown(path)} is not a sound archive ({type(error).__name__}).") from None
    return files


_UNSOUND = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, struct.error),
    *(EOFError, NotImplementedError, ValueError, OSError),  # a gzip file says what is wrong with it by an OSError
    # The library's answers to nonsense: a header of a header of a header ..., a size of 2**70, a name of no letters.
    *(RecursionError, ArithmeticError, LookupError),
)
_Entry = tuple[str, bool, Callable[[int], bytes]]  # name, is it wanted, its bytes (at most so many)


def _zipped(raw: bytes, suffixes: tuple[str, ...]) -> Iterator[_Entry]:
    _refuse_huge_directory(raw)
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        for entry in archive.infolist():
            _check_name(entry.filename, stat.S_IFMT(entry.external_attr >> 16) in (0, stat.S_IFREG, stat.S_IFDIR))
            wanted = not entry.is_dir() and entry.filename.endswith(suffixes)
            yield entry.filename, wanted, partial(_unpack, archive, entry)


def _tarred(raw: bytes, suffixes: tuple[str, ...]) -> Iterator[_Entry]:
    if raw[:2] == b"\x1f\x8b":
        cap = (UNPACKED_MB + ARCHIVE_MB) * MIB  # the files that are not wanted are in the way, too
        raw = gzip.GzipFile(fileobj=io.BytesIO(raw)).read(cap + 1)
        if len(raw) > cap:
            raise Rejected(f"The archive unpacks to more than {cap // MIB} MB.")
    with tarfile.open(fileobj=io.BytesIO(raw), mode="r:") as archive:
        for n, entry in enumerate(archive):
            if n == MAX_ARCHIVE_ENTRIES:
                raise Rejected(f"The archive has more than {MAX_ARCHIVE_ENTRIES} entries.")
            plain = entry.isdir() or (entry.isreg() and not entry.issparse())
            _check_name(entry.name, plain)
            yield (
                entry.name.removeprefix("./"),
                entry.isreg() and entry.name.endswith(suffixes),
                partial(_untar, archive, entry),
            )


def _untar(archive: tarfile.TarFile, entry: tarfile.TarInfo, cap: int) -> bytes:
    data = archive.extractfile(entry).read(cap + 1)
    return _capped(entry.name, data, cap)


def _unpack(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, cap: int) -> bytes:
    if entry.flag_bits & 1 or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        # Others than deflate may ask for gigabytes of memory before the first byte.
        raise Rejected(f"{_shown(entry.filename)} in the archive is encrypted or packed in an unusual way.")
    with archive.open(entry) as file:
        return _capped(entry.filename, file.read(cap + 1), cap)  # the header may lie about the size


def _capped(name: str, data: bytes, cap: int) -> bytes:
    if len(data) > cap:
        raise Rejected(f"{_shown(name)} unpacks to more than {cap / MIB:g} MB.")
    return data


def _check_name(name: str, plain: bool) -> None:
    """plain: it is a file or a folder."""
    parts = name.replace("\\", "/").split("/")
    if not name or name.startswith(("/", "\\")) or ".." in parts or ":" in parts[0] or not _encodable(name):
        raise Rejected(f"The archive holds a file with an unsafe name, {_shown(name)}.")
    if not plain:
        raise Rejected(f"{_shown(name)} in the archive is a link or a special file.")


def _refuse_huge_directory(raw: bytes) -> None:
    """Look at the end record before zipfile does, which builds an object for each entry announced or not."""
    at = raw.rfind(b"PK\5\6", max(0, len(raw) - 22 - 0xFFFF))
    if at < 0 or len(raw) < at + 22:
        raise Rejected("The file is not a zip archive.")
    entries, size = struct.unpack_from("<HI", raw, at + 10)
    zip64 = raw[max(0, at - 20) : at].startswith(b"PK\6\7")
    if zip64 or entries > MAX_ARCHIVE_ENTRIES or size > MAX_ARCHIVE_ENTRIES * 512:
        raise Rejected(f"The archive has more than {MAX_ARCHIVE_ENTRIES} entries.")


def _decode(raw: bytes, what: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Rejected(f"{what} is not UTF-8 text (byte {error.start}).") from None


def _encodable(text: str) -> bool:
    """No lone surrogates: JSON can carry them, nothing else can."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _shown(name: str) -> str:
    """A name for a message: short, and with nothing in it that a terminal would obey."""
    short = name if len(name) <= 80 else "..." + name[-77:]
    return ascii(short)
