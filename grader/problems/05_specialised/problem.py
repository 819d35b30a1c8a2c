"""Unit 05: producer and consumers, each a warp of its own kind."""

import numpy as np

from grader import rules
from grader.problems.inputs import values
from grader.problems.model import Array, Case, Kernel, Problem, Tolerance

TILE = 128


def _inputs(rng, sizes):
    return {"x": values(rng, sizes["blocks"], sizes["tiles"], TILE)}


def _sum(x):
    return (x * np.roll(x, -1, axis=2)).sum(axis=1)


def _reference(inputs, sizes):
    return {"y": _sum(inputs["x"].astype("f8"))}


def _scale(inputs):
    return {"y": _sum(np.abs(inputs["x"]).astype("f8"))}


def _case(blocks, tiles, secret=False):
    return Case({"blocks": blocks, "tiles": tiles}, secret)


def _secret(rng):
    return [_case(int(rng.integers(2, 6)), int(t), secret=True) for t in rng.choice(range(3, 16), 2, replace=False)]


PROBLEM = Problem(
    name="05_specialised",
    title="A warp that only fetches",
    statement=(
        "The first warp of each block copies tiles of 128 elements into a ring of three; the other four warps sum"
        " y[b, c] += x[b, k, c] * x[b, k, (c + 1) % 128]. They wait for each other at mbarriers only."
    ),
    entry=Kernel(
        "specialised",
        (
            Array("x", lambda s: (s["blocks"], s["tiles"], TILE)),
            Array("y", lambda s: (s["blocks"], TILE), "output"),
        ),
        grid=lambda s: (s["blocks"],),
        block=lambda s: (32 + TILE,),
    ),
    cases=(_case(1, 1), _case(2, 2), _case(1, 3), _case(3, 7), _case(2, 16)),
    secret=_secret,
    inputs=_inputs,
    reference=_reference,
    tolerance=Tolerance(relative=2e-6, scale=_scale),
    rubric=(
        *rules.correct(values=4, hazards=3),
        rules.structure(rules.copies_asynchronously, 1),
        rules.structure(rules.waits_at_mbarriers, 2),
    ),
    hints=(
        "Two questions for each place of the ring: is it full, and is it empty again? Who knows, and who asks?",
        "full[s] counts the 32 lanes of the producer, whose copies arrive there (cp_async_arrive); empty[s] counts the"
        " 128 consumers. The producer waits for empty[s] from its fourth tile on.",
        "Tile k is in place s = k % 3, in round k // 3. A consumer waits for parity (k // 3) & 1 of full[s]; the"
        " producer, before it fills s again, for parity (k // 3 - 1) & 1 of empty[s].",
    ),
)
