"""Cards with known faults: what simulated noise does to the times of a side. Used by tests and by tests.bench.marks.

Each noise is a function (rng, gradings, rounds, repeats, sides) -> factors on the true times, of that shape: runs in
the order in which they happen, whichever side comes when.
"""

from itertools import permutations, product

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
    """It heats up: slower by a third over the rounds that are asked for, with jitter."""
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


SIDES = 3
BATCH = 4_000  # gradings at a time
STRETCH = 41  # rounds that are simulated at first; then as many again, for those gradings that go on


def _runs() -> np.ndarray:
    """[ways to order a round, side, place] -> which run of the round that is, as grader.measure.rounds.orders has it."""
    runs = []
    for order, turns in product(permutations(range(SIDES)), permutations(range(MEASURED.repeats))):
        at = {(order[(place + turn) % SIDES], place): SIDES * k + place for k, turn in enumerate(turns) for place in range(SIDES)}  # fmt: skip
        runs.append([[at[side, place] for place in range(SIDES)] for side in range(SIDES)])
    return np.array(runs)


RUNS = _runs()


def times(rng, noise, speedup, rounds):
    """Seconds of (baseline, submission, reference), each [gradings, rounds, places]; see `Rounds.times`.

    speedup: the submission's true one, for each grading.
    """
    own = 1.0 / np.asarray(speedup, np.float32)
    true = np.stack([np.ones_like(own), own, np.full_like(own, 1.0 / REFERENCE)])[..., None, None]
    factors = noise(rng, own.size, rounds, MEASURED.repeats, SIDES).reshape(own.size, rounds, -1)
    runs = RUNS[rng.integers(len(RUNS), size=(own.size, rounds))]
    factors = np.take_along_axis(factors[..., None], runs.reshape(own.size, rounds, -1, 1), axis=2).reshape(runs.shape)
    return np.moveaxis(factors, 2, 0) * true


def gradings(rng, noise, speedup, count, most=MEASURED.most_rounds):
    """(share of the points, bar reached, ambiguous, rounds) of `count` gradings, each an array.

    speedup: the submission's true one, or an array of one for each grading. most: rounds for which there is time. What a
    grading does not need is not simulated: the card's state (warmth, clock) begins anew after each stretch of rounds.
    """
    speedup = np.broadcast_to(np.asarray(speedup, np.float32), count)
    batches = [_batch(rng, noise, speedup[i : i + BATCH], most) for i in range(0, count, BATCH)]
    return tuple(np.concatenate(of_all) for of_all in zip(*batches, strict=True))


def _batch(rng, noise, speedup, most):
    count = speedup.size
    points, fast, open_, used = np.zeros(count), np.zeros(count, bool), np.zeros(count, bool), np.zeros(count, int)
    left, so_far = np.arange(count), times(rng, noise, speedup, STRETCH)
    for look in [*(n for n in MEASURED.looks if n < most), most]:
        if look > so_far.shape[2]:
            more = times(rng, noise, speedup[left], so_far.shape[2])
            so_far = np.concatenate([so_far, more], axis=2)
        decision = decide(*so_far[:, :, :look], BAR, MEASURED.close)
        ends = decision.done if look < most else np.ones(left.size, bool)
        at = left[ends]
        points[at], fast[at] = share(decision.reached[ends]), decision.reached[ends, 0]
        open_[at], used[at] = decision.open[ends].any(axis=-1), look
        left, so_far = left[~ends], so_far[:, ~ends]
        if not left.size:
            break
    return points, fast, open_, used
