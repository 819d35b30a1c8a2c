"""python -m tests.bench.autograde_kills: `grader autograde`, killed at random moments and run again, until all are marked.

Prints how often a kill left a folder half done, which nbgrader would take for a student who is done.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "nbgrader"))

import handins

from grader.nb.nbgrader.exporter import is_finished


def main() -> None:
    """Fail, with AssertionError, if a mark is lost or wrong."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--students", type=int, default=30)
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng, half_done = random.Random(args.seed), 0
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        handins.make_course(root)
        handins.nbgrader(root, "generate_assignment", handins.UNIT)
        students = handins.Students(root)
        marks = {f"student{n:03}": 0 if n % 3 == 2 else 10 for n in range(args.students)}
        for name, mark in marks.items():
            students.hand_in(name, students.notebook((handins.RIGHT if mark else handins.WRONG) + f"# {name}\n"))
        for _ in range(args.kills):
            half_done += killed(root, rng)
        done = subprocess.run(command(root), capture_output=True, text=True, check=True)
        rows = [line.split() for line in done.stdout.splitlines() if "] student" in line]
        assert {row[1]: float(row[3]) for row in rows} == marks, done.stdout
    print(
        f"{len(marks)} students, {args.kills} kills, of which {half_done} left a folder half done: every mark is right"
    )


def command(root: Path) -> list[str]:
    """The command line."""
    return [sys.executable, "-m", "grader", "autograde", handins.UNIT, "--course", str(root), "--jobs", "2"]


def killed(root: Path, rng: random.Random) -> int:
    """Start it, kill it a moment after one to three more students have a folder; how many folders are half done."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command(root), start_new_session=True, **quiet)
    goal = len(folders(root)) + rng.randrange(1, 4)
    while process.poll() is None and len(folders(root)) < goal:
        time.sleep(0.002)  # a look at another process's files: there is nothing to wait on
    time.sleep(rng.uniform(0, 0.4))
    if process.poll() is None:
        os.kill(process.pid, signal.SIGKILL)
    process.wait()
    return sum(not is_finished(str(folder), ["mend.ipynb"]) for folder in folders(root))


def folders(root: Path) -> list[Path]:
    """What nbgrader has made so far."""
    return list((root / "autograded").glob(f"*/{handins.UNIT}"))


if __name__ == "__main__":
    main()
