"""Where compiled machine code is kept between runs, for the processes that the grader starts."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from importlib.metadata import version
from pathlib import Path

_KEPT = 3  # versions
_FILL = "from grader.devices.worker import warm_virtual; warm_virtual()"


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
    return {"NUMBA_CACHE_DIR": str(_current() / "numba"), "GRADER_CACHE_DIR": str(_current() / "kernels")}


def fill() -> None:
    """Have the virtual GPU's own code compiled, once for each version of it: the first run on a machine takes a while.

    RuntimeError with what the compiling process said when it fails.
    """
    marker = _current() / "filled"
    if marker.exists():
        return
    print("first run on this machine: compiling the virtual GPU, about half a minute", file=sys.stderr, flush=True)
    variables = {**os.environ, **environment(), "GRADER_DEVICE": "virtual:"}
    done = subprocess.run([sys.executable, "-c", _FILL], env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the virtual GPU does not start: {done.stderr[-4000:]}")
    marker.touch()
    for old in sorted(folder().glob("version-*"), key=os.path.getmtime)[:-_KEPT]:
        shutil.rmtree(old, ignore_errors=True)


@cache
def _current() -> Path:
    """The part for this very version: numba's own cache does not notice a change in what a function calls."""
    parts = [sys.version, *(version(name) for name in ("numba", "llvmlite", "numpy"))]
    for path in sorted((Path(__file__).parent / "vgpu").rglob("*.py")):
        status = path.stat()
        parts.append(f"{path} {status.st_mtime_ns} {status.st_size}")
    found = folder() / f"version-{hashlib.sha256(chr(10).join(parts).encode()).hexdigest()[:16]}"
    found.mkdir(exist_ok=True)
    return found
