"""Medians of ratios and how sure one may be of them."""

from collections.abc import Sequence

import numpy as np

RESAMPLES = 2000


def interval(values: Sequence[float], rng: np.random.Generator, confidence: float = 0.95) -> tuple[float, float]:
    """Bootstrap interval of the median (percentile method; Efron and Tibshirani, 1993, chapter 13)."""
    data = np.asarray(values, np.float64)
    if data.size == 1:
        return float(data[0]), float(data[0])
    picks = rng.integers(0, data.size, (RESAMPLES, data.size))
    medians = np.median(data[picks], axis=1)
    low, high = np.quantile(medians, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def settled(span: tuple[float, float], median: float, boundaries: Sequence[float], close: float) -> bool:
    """The interval is narrow (+-`close` of the median), or holds none of the boundaries at which marks change."""
    low, high = span
    return high - low <= 2 * close * median or not straddled(span, boundaries)


def straddled(span: tuple[float, float], boundaries: Sequence[float]) -> bool:
    """Some boundary lies inside the interval."""
    return any(span[0] < b <= span[1] for b in boundaries)
