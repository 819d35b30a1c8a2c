"""Unit 03: a stencil, tile by tile, that fetches the next tile while it works on this one."""

import numpy as np

from grader import rules
from grader.problems.inputs import near, values
from grader.problems.model import Array, Case, Kernel, Problem, Speed, Tolerance

TILE, RADIUS, Q = 128, 16, 0.75


def _shape(sizes):
    return (sizes["n"],)


def _inputs(rng, sizes):
    return {"x": values(rng, sizes["n"])}


def _blur(x):
    n = len(x)
    padded = np.pad(x.astype("f8"), RADIUS)
    return sum(Q ** abs(k) * padded[RADIUS + k : RADIUS + k + n] for k in range(-RADIUS, RADIUS + 1))


def _reference(inputs, sizes):
    return {"y": _blur(inputs["x"])}


def _scale(inputs):
    return {"y": _blur(np.abs(inputs["x"]))}


def _secret(rng):
    return [Case({"n": n}, secret=True) for n in near(rng, 700, 1900)]


PROBLEM = Problem(
    name="03_stencil",
    title="A stencil that fetches ahead",
    statement="y[i] is the sum of 0.75 ** |k| * x[i + k] for k from -16 to 16, with zero beyond both ends: tile by tile"
    " in shared memory, with the next tile on its way while this one is used.",
    entry=Kernel(
        "stencil",
        (Array("x", _shape), Array("y", _shape, "output")),
        grid=lambda sizes: (40 if sizes["n"] > 10_000 else 2,),  # a block for each SM of the smallest card
        block=lambda sizes: (TILE,),
    ),
    cases=tuple(Case({"n": n}) for n in (1, 127, 256, 1000, 4099)),
    secret=_secret,
    inputs=_inputs,
    reference=_reference,
    tolerance=Tolerance(relative=4e-6, scale=_scale),
    rubric=(
        *rules.correct(values=3.5, hazards=1.5),
        rules.fast(
            4, "The loads of the next tile must be on their way while this one is used, and not be needed before."
        ),
        rules.structure(rules.few_bytes, 1, hint="Each element of a tile should come from global memory once."),
    ),
    hints=(
        "Make it right first, with a load, a barrier, the sum and another barrier in each round. What do the four"
        " warps do from the moment they ask for a tile until it is there?",
        "Fetch the first tile before the loop, into two variables. In the loop: variables to shared memory,"
        " barrier, fetch the next tile into the variables, sum. The variables are needed only in the next round.",
        "a = x[j] if 0 <= j < x.size else float32(0), and b for t < 2 * RADIUS in the same way from j + TILE. The"
        " next tile's j is j + step. A second barrier after the sum, because there is one buffer.",
    ),
    speed=Speed(bar=1.4, modelled=Case({"n": 1 << 18}), measured=Case({"n": 1 << 25})),
)
