"""Reports as files: can they be written, asked before any grading; and written whole or not at all."""

import os
from contextlib import suppress
from pathlib import Path


class Unwritable(ValueError):
    """No file can be made there; the text is one sentence."""


def check(path: str) -> None:
    """Raise Unwritable for a path that `write` could not write to as things are."""
    target = Path(path)
    if os.path.isdir(path):  # which takes a name of any length
        raise Unwritable(f"{path} is a folder: name a file")
    if _is_device(path):
        return
    folder = target.parent
    if not os.path.isdir(folder):
        raise Unwritable(f"{path} cannot be written: there is no folder {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise Unwritable(f"{path} cannot be written: no permission in {folder}")
    part = _part(target)
    try:  # a file system may refuse what the permissions allow, as /sys does
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        part.unlink()
    except FileExistsError:
        pass  # left by a run that was killed: `write` replaces it
    except OSError as e:
        raise Unwritable(f"{path} cannot be written: {folder} takes no file of that name ({e.strerror})") from None


def make_folder(path: str) -> None:
    """A folder for many files, made when it is not there. Unwritable when that fails."""
    try:
        Path(path).mkdir(exist_ok=True)
    except FileExistsError:
        raise Unwritable(f"{path} is a file: name a folder") from None
    except OSError as e:
        folder = Path(path).parent
        why = (
            f"{folder} takes no new folder ({e.strerror})" if os.path.isdir(folder) else f"there is no folder {folder}"
        )
        raise Unwritable(f"{path} cannot be made: {why}") from None
    check(os.path.join(path, "any"))


def write(path: str, text: str) -> None:
    """Put the text there, whole or not at all. Unwritable when that fails."""
    target = Path(path)
    part = target if _is_device(path) else _part(target)
    try:
        part.write_text(text, encoding="utf-8", errors="backslashreplace")  # a file name need not be text
        if part != target:
            part.replace(target)
    except OSError as e:
        if part != target:
            with suppress(OSError):
                part.unlink()
        raise Unwritable(f"{path} cannot be written: {e.strerror}") from None


def _is_device(path: str) -> bool:
    """/dev/stdout, /dev/null or a pipe: it is written to, and must never be replaced by a file."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def _part(target: Path) -> Path:
    """Where the text is until it is whole."""
    return target.with_name(target.name + ".part")
