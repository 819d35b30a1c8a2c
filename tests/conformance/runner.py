"""Run modules of numba-cuda's tests, each in a process of its own, and collect what becomes of every test."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGE = "numba.cuda.tests"
# `nocuda` and `core` have no use of a GPU. Left out are `cudasim`, the simulator's tests, and `benchmarks`.
FOLDERS = ("doc_examples", "cudapy", "cudadrv", "nrt", "nocuda", "core")
TEST_SECONDS = 400.0
OUTCOMES = ("passed", "failed", "errors", "skipped")


@dataclass(frozen=True)
class Outcome:
    """What became of one test."""

    test: str  # without "numba.cuda.tests."
    outcome: str  # one of OUTCOMES
    detail: str = ""  # traceback, or why it was skipped
    seconds: float = 0.0
    findings: tuple[str, ...] = ()  # what the sanitizers said during it


@dataclass
class ModuleResult:
    """What became of a module's tests."""

    file: str  # "cudapy/test_sync"
    outcomes: list[Outcome] = field(default_factory=list)
    seconds: float = 0.0

    def count(self, outcome: str) -> int:
        """How many tests ended so."""
        return sum(o.outcome == outcome for o in self.outcomes)


def tests_folder() -> Path:
    """Where numba-cuda's tests are. Raises RuntimeError if numba-cuda came without them."""
    spec = importlib.util.find_spec("numba_cuda")
    folder = Path(spec.origin).parent / "numba" / "cuda" / "tests" if spec else None
    if folder is None or not folder.is_dir():
        raise RuntimeError("numba-cuda is not installed, or came without its tests")
    return folder


def all_files() -> list[str]:
    """Every test module: "doc_examples/test_cg", ..."""
    root = tests_folder()
    return [f"{folder}/{path.stem}" for folder in FOLDERS for path in sorted((root / folder).glob("test_*.py"))]


def run_module(
    file: str,
    device: str | None = "a100",
    tests: tuple[str, ...] = (),
    limit: float = TEST_SECONDS,
    log=None,
    sanitizers: bool = False,
) -> ModuleResult:
    """Run the tests of `file` ("cudapy/test_sync"), or those named.

    device: a virtual GPU; None for numba's simulator. limit: seconds a test may take. A test that ends the process, or
    does not end, counts as an error, and the others are run in a new process. log: a file that gets all that is
    printed. sanitizers: with racecheck and initcheck.
    """
    env = environment(device, sanitizers)
    module = f"{PACKAGE}.{file.replace('/', '.')}"
    result, started = ModuleResult(file), time.monotonic()
    known: list[str] | None = None
    left = [f"{PACKAGE}.{test}" for test in tests]
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        while True:
            lines, why = _run_child(module, left, env, limit, Path(folder), log)
            running, stopped = None, False
            for line in lines:
                if "tests" in line:
                    known = known or line["tests"]
                elif "start" in line:
                    running = line["start"]
                elif "poisoned" in line:
                    stopped = True
                elif "test" in line:
                    running, stopped = None, False
                    result.outcomes.append(_outcome(**line))
            if running is not None:
                result.outcomes.append(_outcome(running, "errors", why or "the process ended"))
            elif why and not stopped:
                result.outcomes.append(_outcome(module, "errors", why))
            seen = {f"{PACKAGE}.{outcome.test}" for outcome in result.outcomes}
            missing = [test for test in (left or known or []) if test not in seen]
            if why and (running is not None or stopped) and missing:
                left = missing
                continue
            result.outcomes += [_outcome(test, "errors", "it was not run") for test in missing]
            break
    result.seconds = round(time.monotonic() - started, 1)
    return result


def _outcome(test, outcome, detail="", seconds=0.0, findings=()) -> Outcome:
    return Outcome(test.removeprefix(PACKAGE + "."), outcome, detail, seconds, tuple(findings))


def environment(device: str | None, sanitizers: bool) -> dict[str, str]:
    """The environment of the tests: one in which every process finds the device."""
    env = dict(os.environ)
    for name in ("CONFORMANCE_DEVICE", "CONFORMANCE_SANITIZERS", "NUMBA_ENABLE_CUDASIM"):
        env.pop(name, None)
    if sanitizers:
        env["CONFORMANCE_SANITIZERS"] = "1"
    paths = [HERE / "site", HERE.parents[1]]  # the driver, and the `grader` that these tests belong to
    env["PYTHONPATH"] = os.pathsep.join([*map(str, paths), *filter(None, [env.get("PYTHONPATH")])])
    env["OMP_NUM_THREADS"] = env["OPENBLAS_NUM_THREADS"] = "1"
    if device is None:
        env["NUMBA_ENABLE_CUDASIM"] = "1"
    else:
        env["CONFORMANCE_DEVICE"] = device
    return env


def _run_child(module, tests, env, limit, folder: Path, log) -> tuple[list[dict], str]:
    """The lines that the child wrote, and why it ended before its time ("" if it did not)."""
    results = folder / "results"
    results.write_text("")
    path = tests_folder().joinpath(*module.removeprefix(PACKAGE + ".").split(".")).with_suffix(".py")
    command = [sys.executable, str(HERE / "child.py"), str(path), module, str(results), *tests]
    out = log if log is not None else subprocess.DEVNULL
    child = subprocess.Popen(
        command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
    )
    why, size, since = "", 0, time.monotonic()
    while child.poll() is None:
        time.sleep(0.05)
        now = time.monotonic()
        if results.stat().st_size != size:
            size, since = results.stat().st_size, now
        elif now - since > limit:
            why = f"no end within {limit:.0f} s"
            break
    _end(child)
    lines = [json.loads(line) for line in results.read_text().splitlines() if line.endswith("}")]
    if not why and not any("end" in line for line in lines):
        code = child.returncode
        why = (
            f"the process ended by {signal.Signals(-code).name}"
            if code < 0
            else f"the process ended with status {code}"
        )
    return lines, why


def _end(child: subprocess.Popen) -> None:
    """End it and what it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
