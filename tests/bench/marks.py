"""python -m tests.bench.marks: how often noise gives a wrong mark, at and near every limit of the marks.

Each line is one kind of noise; true speed-ups lie at a limit or a little below it. `slow` is the share of gradings that
do not give the mark (wrong at 0 %, right below), `fast` of those that give it without a flag (wrong below), `flagged` of
those with a flag, `twice` of pairs of gradings that differ though neither is flagged. Then gradings of the same code, two
by two, with speed-ups from 0.8 to 3.5: how many get the same mark twice, flagged or not. `--most N` is for gradings that
have time for N rounds only (tests.bench.round_cost).

Lines below a limit get a fifth of the gradings of those at it. `rough` is beyond what is asked for, and is told apart; it
takes all rounds, so it gets a twentieth.
"""

import argparse
import sys
from itertools import product
from math import sqrt
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "grading"))

import noise

from grader.measure import MEASURED
from grader.measure.statistics import overall_error

BELOW = (0.0, -2 * MEASURED.close, -0.01, -0.03)


def main() -> None:
    """Print the figures of all noises, then the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gradings", type=int, default=20_000, help="of each line at a limit")
    parser.add_argument("--pairs", type=int, default=100_000, help="of each noise, for the same mark twice")
    parser.add_argument("--most", type=int, default=MEASURED.most_rounds, help="rounds for which there is time")
    parser.add_argument("--noise", nargs="+", choices=[n.__name__ for n in noise.NOISES], help="only these")
    args = parser.parse_args()
    wanted = [n for n in noise.NOISES if n.__name__ in (args.noise or n.__name__)]
    print(f"wrong at a limit, over all looks, whatever the noise: {overall_error(MEASURED.looks):.4%} on either side")
    for make in wanted:
        pairs = args.pairs // 20 if make is noise.rough else args.pairs
        differ, unflagged, flagged, rounds = twice_over(np.random.default_rng(99), make, pairs, args.most)
        low, high = likely(differ, pairs)
        print(f"{make.__name__:8} {pairs} pairs: {1 - differ:.3%} get the same mark twice (95 % interval {1 - high:.3%} to"
              f" {1 - low:.3%}), {1 - unflagged:.3%} or are flagged; {flagged:.2%} are flagged, {rounds:.1f} rounds on"
              " average", flush=True)  # fmt: skip
    print(f"{'noise':8} {'limit':17} {'off':>6} {'slow':>8} {'fast':>8} {'flagged':>8} {'twice':>8} {'rounds':>6}")
    wrong: dict[tuple[bool, str], list[float]] = {}
    for make, (seed, ((name, limit), off)) in product(wanted, enumerate(product(noise.EDGES.items(), BELOW))):
        rough, count = make is noise.rough, (args.gradings if off == 0 else args.gradings // 5)
        count = count // 20 if rough else count
        rng = np.random.default_rng([noise.NOISES.index(make), seed])
        slow, fast, flagged, twice, rounds = rates(rng, make, limit, off, count, args.most)
        if off == 0:
            wrong.setdefault((rough, "false fails at a limit"), []).append(slow)
        else:
            what = f"marks given, flagged or not, {-BELOW[1]:.1%} or more below a limit"
            wrong.setdefault((rough, what), []).append(1 - slow)
        wrong.setdefault((rough, "false passes, not flagged, at a limit or below"), []).append(fast)
        wrong.setdefault((rough, "pairs that differ, neither flagged"), []).append(twice)
        words = " ".join(f"{share:8.3%}" for share in (slow, fast, flagged, twice))
        print(f"{make.__name__:8} {name:17} {off:6.1%} {words} {rounds:6.1f}", flush=True)
    for (rough, what), found in sorted(wrong.items()):
        who = "rough" if rough else "all others"
        print(f"{who}: {what}: {np.mean(found):.4%}, at most {max(found):.3%} in one of {len(found)} lines")


def likely(share: float, count: int) -> tuple[float, float]:
    """95 % interval of a share that was seen in so many trials (Wilson, https://doi.org/10.1080/01621459.1927.10502953)."""
    z = 1.96
    middle, width = share + z * z / (2 * count), z * sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return (middle - width) / (1 + z * z / count), (middle + width) / (1 + z * z / count)


def twice_over(rng, make, count: int, most: int) -> tuple[float, float, float, float]:
    """(pairs of gradings of the same code with different marks, those of them that nobody is told of, gradings that are
    flagged, rounds)."""
    true = np.exp(rng.uniform(np.log(0.8), np.log(3.5), count))
    (first, fast, open_, rounds), (second, fast_again, open_again, _) = (
        noise.gradings(rng, make, true, count, most) for _ in "12"
    )
    differ = (first != second) | (fast != fast_again)
    return tuple(float(v.mean()) for v in (differ, differ & ~open_ & ~open_again, open_, rounds))


def rates(rng, make, limit: float, off: float, count: int, most: int) -> tuple[float, ...]:
    """(slow, fast without a flag, flagged, pairs that differ without a flag, rounds)."""
    points, bar, open_, rounds = noise.gradings(rng, make, limit * (1 + off), count, most)
    got = bar if limit == noise.BAR else points >= list(noise.EDGES.values()).index(limit) / 4 - 1e-9
    half = count // 2
    differ = points[:half] != points[half : 2 * half]
    differ &= ~open_[:half] & ~open_[half : 2 * half]
    return tuple(float(v.mean()) for v in (~got, got & ~open_, open_, differ, rounds))


if __name__ == "__main__":
    main()
