"""python -m tests.bench.autograde: seconds a submission, with the grader and in plain nbgrader.

The same submissions, which differ in a comment, are autograded by `grader autograde` and, the first few of them, by
nbgrader as it comes, which starts a kernel for each and believes what it prints. Both in one process.
"""

import argparse
import contextlib
import io
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "nbgrader"))

import handins
from nbgrader.apps import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config

from grader.nb.nbgrader import autograde


def main() -> None:
    """Print the two figures and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--students", type=int, default=50)
    parser.add_argument("--plain", type=int, default=3, help="how many of them plain nbgrader gets")
    parser.add_argument("--jobs", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        root = Path(scratch)
        handins.make_course(root)
        handins.nbgrader(root, "generate_assignment", handins.UNIT)
        names = hand_in(root, args.students)
        ours, said = timed(lambda: autograde.main(handins.UNIT, root, jobs=args.jobs))
        print(said.splitlines()[-1])
        theirs, _ = timed(lambda: plain(root, names[: args.plain]))
    ours, theirs = ours / len(names), theirs / min(len(names), args.plain)
    print(
        f"grader autograde {ours:.2f} s a submission, start included; plain nbgrader {theirs:.2f} s: "
        f"{theirs / ours:.1f} times as long"
    )


def hand_in(root: Path, count: int) -> list[str]:
    """Submissions whose code differs, as real ones do; a third of them wrong."""
    students = handins.Students(root)
    names = [f"student{n:03}" for n in range(count)]
    for n, name in enumerate(names):
        notebook = students.notebook((handins.WRONG if n % 3 == 2 else handins.RIGHT) + f"# {name}\n")
        notebook.cells[1].source = f"%load_ext grader\n{notebook.cells[1].source}"
        students.hand_in(name, notebook)
    return names


def plain(root: Path, names: list[str]) -> None:
    """nbgrader's autograde without our configuration."""
    os.environ["GRADER_DEVICE"] = "virtual:a100"
    config = Config()
    config.CourseDirectory.root = str(root)
    config.CourseDirectory.source_directory, config.CourseDirectory.release_directory = "solutions", "exercises"
    config.CourseDirectory.autograded_directory = "autograded-plain"
    config.Execute.timeout = config.Execute.iopub_timeout = 120
    api = NbGraderAPI(coursedir=CourseDirectory(config=config), config=config)
    for name in names:
        said = api.autograde(handins.UNIT, name)
        assert said["success"], said


def timed(action) -> tuple[float, str]:
    """(seconds, what it printed)."""
    start, printed = time.perf_counter(), io.StringIO()
    with contextlib.redirect_stdout(printed):
        action()
    return time.perf_counter() - start, printed.getvalue()


if __name__ == "__main__":
    main()
