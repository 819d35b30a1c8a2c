"""The optional second wall: the zygote inside bubblewrap, in a file system that holds nothing but what it needs."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable

from . import paths

_TRY_S = 60.0


def command(extra: Iterable[str] = ()) -> list[str] | None:
    """Give the words to put before a command, or None where bubblewrap is missing or not allowed to work.

    `extra`: paths to show, read-only, besides Python, its packages and this package.
    """
    program = shutil.which("bwrap")
    if program is None:
        return None
    words = [program, "--unshare-all", "--cap-drop", "ALL"]
    words += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    for path in _shown(extra):
        words += ["--ro-bind", path, path]
    for link in ("/lib", "/lib64", "/bin", "/sbin"):
        if os.path.islink(link):
            words += ["--symlink", os.readlink(link), link]
    words.append("--")
    try:
        tried = subprocess.run([*words, sys.executable, "-I", "-S", "-c", ""], capture_output=True, timeout=_TRY_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return words if tried.returncode == 0 else None


def _shown(extra: Iterable[str]) -> list[str]:
    """Sorted, so that a directory is bound before what lies in it."""
    files, listable = paths.readable(extra)
    python = [sys.prefix, sys.base_prefix, os.path.dirname(sys.executable)]
    shown = {"/usr", *files, *listable, *python, paths.PACKAGE, *extra}
    return sorted(path for path in shown if os.path.exists(path) and not path.startswith(("/dev/", "/proc/")))
