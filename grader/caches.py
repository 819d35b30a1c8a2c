"""Where compiled machine code is kept between runs, for the processes that the grader starts."""

import os
import tempfile
from functools import cache
from pathlib import Path


@cache
def folder() -> Path:
    """The user's cache folder for this package (in GRADER_CACHE or XDG's place); else a temporary one."""
    base = os.environ.get("GRADER_CACHE") or os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    wanted = Path(base) / "cuda-camp"
    try:
        wanted.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=wanted):
            return wanted
    except OSError:
        return Path(tempfile.mkdtemp(prefix="cuda-camp-"))


def environment() -> dict[str, str]:
    """Environment variables that point numba and the virtual GPU there."""
    return {"NUMBA_CACHE_DIR": str(folder() / "numba"), "GRADER_CACHE_DIR": str(folder() / "kernels")}
