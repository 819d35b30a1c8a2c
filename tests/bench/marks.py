"""python -m tests.bench.marks: how often noise gives a wrong mark, at and near every limit of the marks.

Each line is one kind of noise; true speed-ups lie at a limit or a little below it. `slow` is the share of gradings that
do not give the mark (wrong at 0 %, right below), `fast` of those that give it without a flag (wrong below), `twice` of
pairs of gradings that differ though neither is flagged.
"""

import argparse
import sys
from itertools import product
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
    print(f"{'noise':8} {'limit':17} {'off':>6} {'slow':>8} {'fast':>8} {'flagged':>8} {'twice':>8} {'rounds':>6}")
    wrong: dict[str, list[float]] = {}
    for seed, (make, (name, limit), off) in enumerate(product(noise.NOISES, noise.EDGES.items(), (0.0, -0.01, -0.03))):
        slow, fast, flagged, twice, rounds = rates(np.random.default_rng(seed), make, limit, off, count)
        if off == 0:
            wrong.setdefault("false fails at a limit", []).append(slow)
        wrong.setdefault("false passes at a limit or below", []).append(fast)
        wrong.setdefault("pairs that differ, neither flagged", []).append(twice)
        words = " ".join(f"{share:8.3%}" for share in (slow, fast, flagged, twice))
        print(f"{make.__name__:8} {name:17} {off:6.1%} {words} {rounds:6.1f}", flush=True)
    for make in noise.NOISES:
        differ, unflagged = twice_over(np.random.default_rng(99), make, count)
        print(f"{make.__name__:8} speed-ups from 0.8 to 3.5, each graded twice: {1 - differ:.2%} get the same mark twice;"
              f" {1 - unflagged:.3%} get the same mark or are flagged", flush=True)  # fmt: skip
    for what, found in wrong.items():
        print(f"{what}: {np.mean(found):.3%}, at most {max(found):.3%} in one line of {count} (asked: under 0.1 %)")


def twice_over(rng, make, count: int) -> tuple[float, float]:
    """(pairs of gradings of the same code with different marks, those of them that nobody is told of)."""
    true = np.exp(rng.uniform(np.log(0.8), np.log(3.5), count))
    (first, fast, open_, _), (second, fast_again, open_again, _) = (
        noise.gradings(rng, make, true, count) for _ in "12"
    )
    differ = (first != second) | (fast != fast_again)
    return float(differ.mean()), float((differ & ~open_ & ~open_again).mean())


def rates(rng, make, limit: float, off: float, count: int) -> tuple[float, ...]:
    """(slow, fast without a flag, flagged, pairs that differ without a flag, rounds)."""
    points, bar, open_, rounds = noise.gradings(rng, make, limit * (1 + off), count)
    got = bar if limit == noise.BAR else points >= list(noise.EDGES.values()).index(limit) / 4 - 1e-9
    half = count // 2
    differ = points[:half] != points[half : 2 * half]
    differ &= ~open_[:half] & ~open_[half : 2 * half]
    return tuple(float(v.mean()) for v in (~got, got & ~open_, open_, differ, rounds))


if __name__ == "__main__":
    main()
