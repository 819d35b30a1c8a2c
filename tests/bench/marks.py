"""python -m tests.bench.marks: how often noise gives a wrong mark, at and near every limit of the marks.

Each line is one kind of noise; true speed-ups lie at a limit or a little below it. `slow` is the share of gradings that
do not give the mark (wrong at 0 %, right below), `fast` of those that give it without a flag (wrong below), `twice` of
pairs of gradings that differ though neither is flagged.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "grading"))

import noise

from grader.measure import MEASURED
from grader.measure.statistics import overall_error


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gradings", type=int, default=20_000)
    count = parser.parse_args().gradings
    print(f"wrong at a limit, over all looks, whatever the noise: {overall_error(MEASURED.looks):.4%} on either side")
    print(f"{'noise':8} {'limit':16} {'off':>6} {'slow':>8} {'fast':>8} {'flagged':>8} {'twice':>8} {'rounds':>6}")
    worst = 0.0
    for make in noise.NOISES:
        for name, limit in noise.EDGES.items():
            for off in (0.0, -0.01, -0.03):
                row = rates(make, limit, off, count)
                worst = max(worst, *(row[1:2] if off else row[:2]), row[3])
                words = " ".join(f"{share:8.3%}" for share in row[:4])
                print(f"{make.__name__:8} {name:16} {off:6.1%} {words} {row[4]:6.1f}", flush=True)
    print(f"worst rate of a wrong mark without a flag, or of two that differ: {worst:.3%} (asked: under 0.1 %)")


def rates(make, limit: float, off: float, count: int) -> tuple[float, ...]:
    """(slow, fast without a flag, flagged, pairs that differ without a flag, rounds)."""
    points, bar, open_, rounds = noise.gradings(np.random.default_rng(7), make, limit * (1 + off), count)
    got = bar if limit == noise.BAR else points >= list(noise.EDGES.values()).index(limit) / 4 - 1e-9
    half = count // 2
    differ = points[:half] != points[half : 2 * half]
    differ &= ~open_[:half] & ~open_[half : 2 * half]
    return tuple(float(v.mean()) for v in (~got, got & ~open_, open_, differ, rounds))


if __name__ == "__main__":
    main()
