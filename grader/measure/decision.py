"""From the times of some rounds to marks, or to "go on". The same code for one grading and for a million simulated ones."""

from dataclasses import dataclass

import numpy as np

from grader.measure.statistics import ratio, votes
from grader.rules.speed import goals

SURE = 4.0  # standard errors, of both ratios added up: then the estimate alone tells


@dataclass(frozen=True)
class Decision:
    """Arrays over gradings; the last axis of `reached` is goals: the bar, then the steps (see `rules.speed.goals`)."""

    reached: np.ndarray  # bool: the goal counts as reached
    open: np.ndarray  # bool, per goal: it counts as reached, or not, and nothing proves that it is
    done: np.ndarray  # bool: more rounds would change nothing that matters


def decide(baseline, submission, reference, bar: float, close: float, exact: bool = False) -> Decision:
    """Judge the rounds so far. Times in seconds; the last two axes are rounds, and the runs of a round by their place.

    A goal is missed by those who are slower than its lower edge, `close` below it: noise then has `close` to overcome
    before it takes a mark away, and marks change at one speed, which the estimate finds as well as the runs allow. Who
    passes between the edge and the goal is flagged. So a goal is settled when the rounds prove that the submission lies
    below the edge, above the goal, or within `close` of it but above the edge.

    What is not settled at the end goes by the estimate. But nothing is missed that might be reached, as far as the rounds
    and the estimate's error tell, one goal above the estimate at most: else noise of its own making would raise a
    submission's mark. exact: times without noise, every round says all.
    """
    baseline, submission, reference = (np.asarray(t, np.float64) for t in (baseline, submission, reference))
    # The reference's noise is in the goals: each round is held against its own. Three sides are in such a margin, and
    # noise to one side only shifts its median: by 0.02 % with the spikes of tests.bench.marks, a tenth of `close`.
    base, own, ref = (np.median(t, axis=-1) for t in (baseline, submission, reference))
    margins = (base / own)[..., None, :] / np.moveaxis(goals(base / ref, bar), -1, -2)
    if exact:
        reached = np.median(margins, axis=-1) >= 1
        return Decision(reached, np.zeros_like(reached), np.ones(reached.shape[:-1], bool))
    surely, surely_not = votes(margins)
    above, below = votes(margins / (1 - close))
    near = above & votes(margins / (1 + close))[1]
    (speedup, error), (shown, its_error) = ratio(baseline, submission), ratio(baseline, reference)
    estimate = speedup[..., None] / goals(shown, bar)
    reach = np.exp(SURE * (error + its_error))[..., None]
    proved, disproved = surely | (estimate / reach > 1), surely_not | (estimate * reach < 1)
    passes = estimate >= 1 - close
    missed = np.where(passes, -np.inf, estimate)
    next_one = ~passes & (missed == missed.max(axis=-1, keepdims=True))
    reached = above | (~below & (passes | (next_one & ~disproved)))
    return Decision(reached, ~np.where(reached, proved, disproved), (below | surely | near).all(axis=-1))
