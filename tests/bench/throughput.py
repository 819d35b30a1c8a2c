"""python -m tests.bench.throughput: seconds a submission, and submissions a minute, on the virtual GPU.

The submissions are honest ones of tests/corpus, each in several copies that differ in a comment, so that nothing is
graded twice. First one bench alone, for the median of a warm grade; then all processors.
"""

import argparse
import os
import statistics
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from grader import batch, problems
from grader import submission as submissions
from grader.bench import Bench
from grader.results import Store

CORPUS = Path(__file__).parents[1] / "corpus"
FILES = (
    *("honest/tabs.py", "honest/helper_function.py", "honest/while_loop.py", "submissions/grid_stride_ben.py"),
    *("submissions/transpose_hana.py", "submissions/transpose_jun.py", "submissions/mend_fatima.py"),
    *("submissions/mend_georg.py", "submissions/02_matmul_kim.py", "submissions/homework-2-lena.ipynb"),
)


def main() -> None:
    """Print both figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--submissions", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    with Store() as store, Bench("virtual:a100") as bench:
        first = list(batch.run(tasks("first", 2 * len(FILES)), bench, None, store, None, 1, {}))
        seconds = [r["wall_seconds"] for _, r in first[len(FILES) :]]
        middle, longest = statistics.median(seconds), max(seconds)
        print(f"warm grade, one at a time: median {middle:.2f} s, longest {longest:.2f} s, of {len(seconds)}")
        another = partial(Bench, "virtual:a100")
        start = time.perf_counter()
        count = len(list(batch.run(tasks("timed", args.submissions), bench, another, store, None, args.jobs, {})))
        took = time.perf_counter() - start
    print(f"{count} submissions with {args.jobs} jobs: {60 * count / took:.0f} a minute, the start of benches included")


def tasks(label: str, count: int) -> list[batch.Task]:
    """Submissions that were never there before."""
    found = []
    for n in range(count):
        read = submissions.read(str(CORPUS / FILES[n % len(FILES)]))
        last = read.cells[-1]
        cells = (*read.cells[:-1], replace(last, source=f"{last.source}\n# {label} {n}\n"))
        (exercise,) = read.exercises
        found.append((replace(read, cells=cells, digest=f"{label} {n}"), problems.get(exercise)))
    return found


if __name__ == "__main__":
    main()
