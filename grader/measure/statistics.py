"""How fast, and how sure one may be of a ratio that was seen in n rounds. Everything is done for many at once.

All three are made of order statistics, so that no outlier moves them:

* `ratio` is the estimate. It uses every run: a median of the rounds' medians needs 1.3 to 3.7 times as many rounds for the
  same error, by the noise (those of tests.bench.marks).
* `interval`, the bootstrap interval of the median, is what people are shown. The bootstrap distribution of a median is
  known exactly (Efron, Annals of Statistics 7, 1979, section 3, https://doi.org/10.1214/aos/1176344552), so nothing is
  resampled.
* `votes` decides marks. It is the sign test: whatever the noise looks like, in each round a ratio lies above its true
  median with probability 1/2. So the chance of a wrong decision is known beforehand, and does not depend on the noise.
"""

from functools import cache
from math import comb

import numpy as np

ERROR = (
    1.6e-3  # a vote of n rounds errs, on either side, with a chance of ERROR / n: 3e-4 over all votes (`overall_error`)
)


def ratio(a, b) -> tuple[np.ndarray, np.ndarray]:
    """(how many times b the times a are, its relative standard error), over the last two axes: rounds, and the runs of a
    round by their place in it.

    Runs of the same round and place are compared, so that neither drift nor the place counts. Of the logarithms of all
    these ratios the mean of the middle half is taken (the midmean, or interquartile mean): a quarter may be spoilt on
    either side. Both sides suffer the same noise, so these logarithms lie symmetrically about the true one, and the
    middle half is not moved off it, however lopsided the noise of a run is. The error is that of a trimmed mean (Yuen,
    Biometrika 61, 1974, https://doi.org/10.1093/biomet/61.1.165): the spread with the ends drawn in, over what is kept.
    """
    logs = np.log(np.asarray(a) / np.asarray(b))
    logs = logs.reshape(*logs.shape[:-2], -1)
    n, spare = logs.shape[-1], logs.shape[-1] // 4
    logs = np.partition(logs, (spare, n - spare - 1), axis=-1)
    kept = logs[..., spare : n - spare]
    drawn_in = np.clip(logs, logs[..., [spare]], logs[..., [n - spare - 1]])
    return np.exp(kept.mean(axis=-1)), drawn_in.std(axis=-1) * np.sqrt(n) / kept.shape[-1]


def interval(values, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Bootstrap interval of the median (percentile method), over the last axis."""
    data = np.sort(np.asarray(values, np.float64), axis=-1)
    low, high = _ranks(data.shape[-1], round((1 - confidence) / 2, 12))
    return data[..., low], data[..., high]


@cache
def _ranks(n: int, tail: float) -> tuple[int, int]:
    """Which order statistics, from 0, bound the bootstrap median of n values; `tail` is left out on either side."""
    need = (n + 1) // 2  # draws at or below x[k] that put the lower median there: binomial, (k + 1) / n each
    below = [1 - sum(comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(need)) for p in _shares(n)]
    low = next(k for k, share in enumerate(below) if share > tail)
    return low, n - 1 - low


def _shares(n: int) -> list[float]:
    return [(k + 1) / n for k in range(n)]


@cache
def allowed(n: int) -> int:
    """Up to so many of n rounds may disagree with what the others are taken to prove; -1: n rounds prove nothing.

    The largest k with P(Binomial(n, 1/2) <= k) <= ERROR / n. Votes of more rounds must be surer, so that taking many of
    them, as one who goes on measuring near a limit does, does not add up.
    """
    total, k = 0, -1
    while (total := total + comb(n, k + 1)) * n <= ERROR * 2**n:
        k += 1
    return k


def votes(margins) -> tuple[np.ndarray, np.ndarray]:
    """(surely at least 1, surely below 1): what the rounds say of the true median, over the last axis."""
    margins = np.asarray(margins)
    n, k = margins.shape[-1], allowed(margins.shape[-1])
    below = (margins < 1).sum(axis=-1)
    return below <= k, n - below <= k


def overall_error(looks) -> float:
    """Chance that a vote taken after each number of rounds in `looks` ever calls a median that is 1 "surely below 1".

    A vote that decides ends it. Exact: the number of rounds below 1 is a random walk.
    """
    looks, wrong, walk = set(looks), 0.0, {0: 1.0}  # rounds below 1 -> probability that it has come to that
    for n in range(1, max(looks) + 1):
        step: dict[int, float] = {}
        for below, chance in walk.items():
            for reached in (below, below + 1):
                step[reached] = step.get(reached, 0.0) + chance / 2
        walk = step
        if n in looks:
            k = allowed(n)
            wrong += sum(chance for below, chance in walk.items() if n - below <= k)
            walk = {below: chance for below, chance in walk.items() if k < below < n - k}
    return wrong
