"""Where compiled machine code is kept between runs: the processes that the grader starts use what scripts and notebooks use."""

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.metadata import version
from pathlib import Path

_FILL = """
from grader.devices.worker import warm_virtual
from grader.vgpu.jit.compile import version_dir
warm_virtual()
print(version_dir())
"""

_FIRST = "first run of this version here: compiling the virtual GPU, about half a minute"


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
        wanted = Path(tempfile.mkdtemp()) / "cuda-camp"
        wanted.mkdir()
        return wanted


def environment() -> dict[str, str]:
    """Environment variables that point the virtual GPU there."""
    return {"XDG_CACHE_HOME": str(folder().parent)}


def fill() -> None:
    """Have the virtual GPU's own code compiled, once for each version of it: the first run on a machine takes a while.

    Says so on stderr. Who comes while another process does it waits for that one. RuntimeError with what the compiling
    process said when it fails.
    """
    marker = folder() / f"filled-{_stamp()}"
    if _is_filled(marker):
        return
    with (folder() / "filling").open("w") as lock:
        print(_FIRST, file=sys.stderr, flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _is_filled(marker):
            _compile(marker)


def _compile(marker: Path) -> None:
    variables = {**os.environ, **environment(), "GRADER_DEVICE": "virtual:"}
    jobs = [["-c", _FILL]] + [["-m", "grader.vgpu.precompile"]] * (len(os.sched_getaffinity(0)) > 1)
    with ThreadPoolExecutor() as pool:
        done = list(pool.map(lambda job: _python(job, variables), jobs))
    for process in done:
        if process.returncode:
            raise RuntimeError(f"the virtual GPU does not start: {process.stderr[-4000:]}")
    for old in folder().glob("filled-*"):
        if not _is_filled(old):  # its code has made room for newer versions
            old.unlink(missing_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=folder(), delete=False) as file:  # nobody sees half a marker
        file.write(done[0].stdout.splitlines()[-1])
    os.replace(file.name, marker)


def _is_filled(marker: Path) -> bool:
    """The folder that it names is there. Another process may have removed it, or the marker itself."""
    try:
        return Path(marker.read_text()).exists()
    except FileNotFoundError:
        return False


def _python(arguments: list[str], variables: dict[str, str]) -> subprocess.CompletedProcess:
    """Run Python to its end."""
    return subprocess.run([sys.executable, *arguments], env=variables, capture_output=True, text=True, check=False)


@cache
def _stamp() -> str:
    """Of this copy of the virtual GPU's source, and of what its compiled code depends on; reads no file."""
    parts = [sys.version, *(version(name) for name in ("numba", "llvmlite", "numpy"))]
    for path in sorted((Path(__file__).parent / "vgpu").rglob("*.py")):
        status = path.stat()
        parts.append(f"{path} {status.st_mtime_ns} {status.st_size}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
