"""From the times of some rounds to marks, or to "go on". The same code for one grading and for a million simulated ones."""

from dataclasses import dataclass

import numpy as np

from grader.measure.statistics import votes
from grader.rules.speed import goals


@dataclass(frozen=True)
class Decision:
    """Arrays over gradings; the last axis of `reached` is goals: the bar, then the steps (see `rules.speed.goals`)."""

    reached: np.ndarray  # bool: the goal counts as reached
    open: np.ndarray  # bool, per goal: the rounds do not tell on which side of it the submission is
    done: np.ndarray  # bool: more rounds would change nothing that matters


def decide(baseline, submission, reference, bar: float, close: float, exact: bool = False) -> Decision:
    """Judge the rounds so far; the last axis of the three times is rounds, the numbers are seconds.

    A goal that stays open is decided for the student, one step above the median at most: else noise of its own making
    would raise a submission's mark. It is closed for measuring when the rounds place the submission within `close` of
    it: no better answer is to be had. exact: times without noise, every round says all.
    """
    baseline, submission, reference = (np.asarray(t, np.float64) for t in (baseline, submission, reference))
    # The reference's noise is in the goals: each round is held against its own.
    margins = (baseline / submission)[..., None, :] / np.moveaxis(goals(baseline / reference, bar), -1, -2)
    median = np.median(margins, axis=-1)
    if exact:
        return Decision(median >= 1, np.zeros_like(median, bool), np.ones(median.shape[:-1], bool))
    surely, surely_not = votes(margins)
    unsure = ~(surely | surely_not)
    near = votes(margins / (1 - close))[0] & votes(margins / (1 + close))[1]
    missed = np.where(median < 1, median, -np.inf)
    next_one = (missed == missed.max(axis=-1, keepdims=True)) & (median < 1)
    reached = surely | (unsure & ((median >= 1) | next_one))
    return Decision(reached, unsure, (~unsure | near).all(axis=-1))
