"""A grading run whose processes are killed at random moments, again and again, until it is through."""

import json
import math
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

LIMIT = 600.0  # seconds for everything; only a hang takes so long
LATEST = 8.0  # seconds after its start when a process is killed at the latest: it starts and grades by then
_DONE = re.compile(r"^(\d+) graded(?:, (\d+) kept)?", re.MULTILINE)

RIGHT = """from numba import cuda


@cuda.jit
def mend(x, y):  # NUMBER
    i = cuda.grid(1)
    if i < x.size:
        left = x[i - 1] if i > 0 else 0
        right = x[i + 1] if i + 1 < x.size else 0
        y[i] = left + 2 * x[i] + right
"""
KINDS = {
    "AC": RIGHT,
    "WA": RIGHT.replace("2 *", "3 *"),
    "RTE": RIGHT.replace(" if i + 1 < x.size else 0", ""),
    "CE": RIGHT.replace("2 * x[i]", "2 * z[i]"),
}


@dataclass(frozen=True)
class Run:
    """`python -m grader grade` on a folder, with a file of results."""

    folder: Path
    jobs: int

    def make(self, count: int) -> dict[str, str]:
        """Write `count` submissions; name -> the code that each must get."""
        expected = {}
        for n in range(count):
            code = list(KINDS)[n % len(KINDS)]
            expected[f"mend_{n:03}.py"] = code
            (self.folder / f"mend_{n:03}.py").write_text(KINDS[code].replace("NUMBER", str(n)))
        return expected

    def start(self) -> subprocess.Popen:
        """In a session of its own."""
        words = ["--device", "virtual", "--results", str(self.store), "--json", str(self.written)]
        words += ["--jobs", str(self.jobs)]
        command = [sys.executable, "-m", "grader", "grade", str(self.folder), *words]
        # Who runs the tests in the background of a shell has them, and all that they start, ignore SIGINT.
        heeds = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        with self.said.open("w") as said:
            return subprocess.Popen(
                command, start_new_session=True, preexec_fn=heeds, stdout=said, stderr=subprocess.DEVNULL
            )

    @property
    def store(self) -> Path:
        return self.folder.with_suffix(".db")

    @property
    def written(self) -> Path:
        return self.folder.with_suffix(".json")

    @property
    def said(self) -> Path:
        return self.folder.with_suffix(".txt")

    def counts(self) -> tuple[int, int]:
        """(graded, kept) as the last run counts them itself; it has come to its end."""
        graded, kept = _DONE.search(self.said.read_text()).groups(default="0")
        return int(graded), int(kept)

    def results(self) -> dict[str, str]:
        """Key -> record, as they lie on disk; read as another process would."""
        if not self.store.exists():
            return {}
        with sqlite3.connect(self.store, timeout=300) as db:
            there = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'results'").fetchone()
            found = dict(db.execute("SELECT key, record FROM results")) if there else {}
        db.close()
        return found

    def table(self) -> dict[str, str]:
        """Name -> code, of the report of a run that came to its end."""
        return {Path(r["submission"]).name: r["code"] for r in json.loads(self.written.read_text())}


def below(pid: int) -> set[int]:
    """All processes that a process started, and those started."""
    found: set[int] = set()
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:
            continue  # it ended meanwhile
        for child in map(int, children):
            found |= {child} | below(child)
    return found


def torment(run: Run, rng: random.Random, kills: int, total: int) -> int:
    """Run to the end, with `kills` kills on the way, of the grader itself or of one of its processes; how often started.

    Half of the kills come at a random time, from the start of the process on, half when so many results are there: that
    is when they are written. None comes when only half of what was left is still to be graded: however fast the machine
    is, it comes before the end. The first is of the grader itself. After each, what was on disk is still there,
    unchanged; the last run has graded what was missing, and nothing else.
    """
    end, started, done = time.monotonic() + LIMIT, 0, {}
    while True:
        process = run.start()
        started += 1
        victims: set[int] = set()
        latest = len(done) + max(1, (total - len(done)) // 2)
        while kills and process.poll() is None and time.monotonic() < end:
            moment, goal = math.inf, latest
            if rng.random() < 0.5:
                moment = time.monotonic() + rng.uniform(0, LATEST)
            else:
                goal = min(latest, len(done) + 1 + rng.randrange(max(1, total // (kills + 1))))
            _wait(partial(_has_come_to, run, process, goal, moment), end)
            if process.poll() is not None:
                break
            victims = below(process.pid)
            victim = process.pid if started == 1 else rng.choice([process.pid, process.pid, *sorted(victims)])
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                continue
            kills -= 1
            if victim == process.pid:
                process.wait()
                break
        process.wait(timeout=max(1.0, end - time.monotonic()))
        _wait(partial(_are_gone, victims), end)
        kept = run.results()
        assert done.items() <= kept.items()
        if process.returncode == 0:
            assert run.counts() == (total - len(done), len(done))
            return started
        done = kept


def _has_come_to(run: Run, process: subprocess.Popen, results: int, moment: float) -> bool:
    return time.monotonic() > moment or len(run.results()) >= results or process.poll() is not None


def _are_gone(pids: set[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


def _wait(condition, end: float) -> None:
    while not condition():
        assert time.monotonic() < end, "nothing happens any more"
        time.sleep(0.02)  # a look at other processes: there is nothing to wait on
