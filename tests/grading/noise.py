"""Cards with known faults: what simulated noise does to the times of a side. Used by tests and by tests.bench.marks.

Each noise is a function (rng, gradings, rounds, repeats, sides) -> factors on the true times, of that shape: runs in
the order in which they happen, whichever side comes when.
"""

import numpy as np

from grader.measure import MEASURED
from grader.measure.decision import decide
from grader.rules.speed import FULL_MARKS_AT, STEPS, share

REFERENCE = 3.0  # the reference's speed-up over the baseline
BAR = 1.3


def quiet(rng, *shape):
    """What is left on an idle card: half a per cent."""
    return 1 + 0.005 * rng.standard_normal(shape, np.float32)


def drift(rng, *shape):
    """It heats up: slower by a third over the whole grading, with jitter."""
    time = np.arange(np.prod(shape[1:]), dtype=np.float32).reshape(1, *shape[1:])
    return quiet(rng, *shape) * (1 + time / time.size / 3)


def spikes(rng, *shape):
    """One run in ten takes up to ten times as long."""
    hit = rng.random(shape, np.float32) < 0.1
    return quiet(rng, *shape) * (1 + hit * 9 * rng.random(shape, np.float32))


def bimodal(rng, *shape):
    """The clock has two states, 12 % apart, and changes between them at random moments."""
    flips = rng.random((shape[0], np.prod(shape[1:])), np.float32) < 0.07
    state = (flips.cumsum(axis=1) + rng.integers(0, 2, (shape[0], 1))) % 2
    return quiet(rng, *shape) * (1 + 0.12 * state.reshape(shape).astype(np.float32))


def order(rng, *shape):
    """Who comes first pays 8 %, who comes second 3 %."""
    paid = np.array([0.08, 0.03, 0.0], np.float32)
    return quiet(rng, *shape) * (1 + paid)


def rough(rng, *shape):
    """Everything scatters by 5 %, with long tails."""
    return np.exp(0.05 * rng.standard_t(3, shape)).astype(np.float32)


NOISES = (quiet, drift, spikes, bimodal, order, rough)
EDGES = {"the bar": BAR} | {
    f"{k}/{STEPS} of the points": 1 + (REFERENCE / FULL_MARKS_AT - 1) * k / STEPS for k in range(1, STEPS + 1)
}


def times(rng, noise, speedup, gradings, rounds):
    """Seconds of (baseline, submission, reference), each [gradings, rounds]; the sides take turns in random order.

    speedup: the submission's true one, or an array of one for each grading.
    """
    own = 1.0 / np.broadcast_to(np.asarray(speedup, np.float32), gradings)
    true = np.stack([np.ones_like(own), own, np.full_like(own, 1.0 / REFERENCE)], axis=-1)[:, None, :]
    factors = noise(rng, gradings, rounds, MEASURED.repeats, 3)
    # As grader.measure.rounds.orders: a random order, turned by another step in each repeat.
    order, turns = (rng.random((gradings, rounds, n), np.float32).argsort(axis=-1) for n in (3, MEASURED.repeats))
    place = (order[..., None, :] + turns[..., None]) % 3
    factors = np.take_along_axis(factors, place, axis=-1)
    return np.moveaxis(np.median(factors, axis=-2) * true, -1, 0)


def gradings(rng, noise, speedup, count):
    """(share of the points, bar reached, ambiguous, rounds) of `count` gradings, each an array; see `times`."""
    all_times = times(rng, noise, speedup, count, MEASURED.most_rounds)
    points, fast, open_, used = np.zeros(count), np.zeros(count, bool), np.zeros(count, bool), np.zeros(count, int)
    left = np.arange(count)
    for look in MEASURED.looks:
        decision = decide(*all_times[:, left, :look], BAR, MEASURED.close)
        ends = decision.done if look < MEASURED.most_rounds else np.ones(left.size, bool)
        at = left[ends]
        points[at], fast[at] = share(decision.reached[ends]), decision.reached[ends, 0]
        open_[at], used[at] = decision.open[ends].any(axis=-1), look
        left = left[~ends]
        if not left.size:
            break
    return points, fast, open_, used
