"""python -m tests.bench.kills: 200 submissions, killed at random moments and run again, until all are graded.

Prints the table of codes, which must be the expected one, and how often the run was started.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "grading"))

import kills


def main() -> None:
    """Fail, with AssertionError, if a result is lost, changed or graded twice."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--submissions", type=int, default=200)
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    kills.LIMIT = 3600.0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "in"
        folder.mkdir()
        run = kills.Run(folder, args.jobs)
        expected = run.make(args.submissions)
        start = time.perf_counter()
        started = kills.torment(run, random.Random(args.seed), args.kills, args.submissions)
        took = time.perf_counter() - start
        assert run.table() == expected
        assert len(run.results()) == args.submissions
        count = ", ".join(f"{n} {code}" for code, n in Counter(run.table().values()).most_common())
    print(f"{args.kills} kills, {started} starts, {took:.0f} s: {count}; nothing lost, nothing graded twice")


if __name__ == "__main__":
    main()
