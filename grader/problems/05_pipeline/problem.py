"""Unit 05: a ring of three tiles, two of them under way."""

import numpy as np

from grader import rules
from grader.problems.inputs import values
from grader.problems.model import Array, Case, Kernel, Problem, Tolerance

TILE = 128


def _inputs(rng, sizes):
    return {"x": values(rng, sizes["blocks"], sizes["tiles"], TILE)}


def _sum(x):
    return (x * x[:, :, ::-1]).sum(axis=1)


def _reference(inputs, sizes):
    return {"y": _sum(inputs["x"].astype("f8"))}


def _scale(inputs):
    return {"y": _sum(np.abs(inputs["x"]).astype("f8"))}


def _case(blocks, tiles, secret=False):
    return Case({"blocks": blocks, "tiles": tiles}, secret)


def _secret(rng):
    return [_case(int(rng.integers(2, 6)), int(t), secret=True) for t in rng.choice(range(3, 16), 2, replace=False)]


PROBLEM = Problem(
    name="05_pipeline",
    title="A pipeline of three stages",
    statement=(
        "Each block walks over its tiles of 128 elements and sums y[b, t] += x[b, k, t] * x[b, k, 127 - t]. The tiles"
        " come by cp_async into a ring of three: two are under way while one is in use."
    ),
    entry=Kernel(
        "pipeline",
        (
            Array("x", lambda s: (s["blocks"], s["tiles"], TILE)),
            Array("y", lambda s: (s["blocks"], TILE), "output"),
        ),
        grid=lambda s: (s["blocks"],),
        block=lambda s: (TILE,),
    ),
    cases=(_case(1, 1), _case(2, 2), _case(1, 3), _case(3, 7), _case(2, 16)),
    secret=_secret,
    inputs=_inputs,
    reference=_reference,
    tolerance=Tolerance(relative=2e-6, scale=_scale),
    rubric=(
        *rules.correct(values=4, hazards=2),
        rules.structure(rules.copies_asynchronously, 2),
        rules.structure(rules.copies_ahead, 2, groups=2),
    ),
    hints=(
        "In step k tile k is used. Which tile can be started in the same step, and into which place of the ring?",
        "Before the loop start tiles 0 and 1, each in a group of its own, as far as there are so many. In step k"
        " start tile k + 2 into place (k + 2) % 3, commit, wait until two groups are left, barrier, use, barrier.",
        "Commit in every step, whether there was something to copy or not: then cp_async_wait(2) means tile k in"
        " every step.",
    ),
)
