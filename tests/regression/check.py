"""What counts as right.

* The order of two figures that were published as 1.2x or more apart.
* A published figure of the modelled card, to 40 %.
* No gain where next to none was published.
* Ratios of neighbours, to 25 % on average.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from .experiments import EXPERIMENTS, Experiment, Row

GAP, WITHIN, MEAN = 1.2, 0.4, 0.25


@dataclass(frozen=True)
class Result:
    """An experiment that was run."""

    experiment: Experiment
    rows: list[Row]
    ratios: list[tuple[float, float] | None]  # published and modelled, to the row before
    wrong: list[str]


def mean_error(results: list[Result]) -> float:
    """Mean absolute error of the modelled ratios of neighbours, of the published ones."""
    errors = [abs(ratio[1] / ratio[0] - 1) for result in results for ratio in result.ratios if ratio]
    return sum(errors) / len(errors)


def results() -> Iterator[Result]:
    """Run them all, one after the other."""
    for experiment in EXPERIMENTS:
        yield check(experiment)


def check(experiment: Experiment) -> Result:
    """Run one."""
    rows = list(experiment.run())
    ratios, wrong = [None], []
    for a, b in pairwise(rows):
        published, modelled = b.published / a.published, b.modelled / a.modelled
        ratios.append((published, modelled))
        if published >= GAP and modelled <= 1:
            wrong.append(f"{b.what} is published to be {published:.2f}x {a.what}, and is modelled as {modelled:.2f}x")
        if 1 <= published < 1.1 and not 0.93 <= modelled <= 1.15:
            wrong.append(f"{b.what} must show next to no gain over {a.what}, and is modelled as {modelled:.2f}x")
    for row in rows:
        if row.absolute and abs(row.modelled / row.published - 1) > WITHIN:
            wrong.append(f"{row.what} is {row.modelled:.4g} {row.unit}, {row.published:.4g} published")
    return Result(experiment, rows, ratios, wrong)
