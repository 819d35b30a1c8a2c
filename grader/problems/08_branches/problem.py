"""Unit 08: a step that forks and joins, as a graph."""

import numpy as np

from grader import rules
from grader.problems.inputs import near, values
from grader.problems.model import Array, Case, HostFunction, Problem, Scalar, Speed, Tolerance

THREADS, REACH = 128, 100


def _inputs(rng, sizes):
    return {name: np.abs(values(rng, sizes["n"])) for name in "uv"}  # all positive: nothing cancels


def _diffuse(a):
    total = np.concatenate([[0], np.cumsum(np.pad(a, REACH, mode="edge"))])
    return (total[2 * REACH + 1 :] - total[: -2 * REACH - 1]) / (2 * REACH + 1)


def _reference(inputs, sizes):
    u, v = (inputs[name].astype("f8") for name in "uv")
    for _ in range(sizes["steps"]):
        x, y = _diffuse(u), _diffuse(v)
        u, v = x / (1 + y), (x + y) / 2
    return {"u": u, "v": v}


def _shape(sizes):
    return (sizes["n"],)


def _case(n, steps, secret=False):
    return Case({"n": n, "steps": steps}, secret)


def _launches(sizes):
    shape, steps = (-(-sizes["n"] // THREADS), THREADS), sizes["steps"]
    return {"diffuse": rules.Given(shape, 2 * steps), "react": rules.Given(shape, steps)}


def _secret(rng):
    return [_case(n, int(rng.integers(2, 5)), secret=True) for n in near(rng, 300, 900)]


PROBLEM = Problem(
    name="08_branches",
    title="Two branches of a graph",
    statement=(
        "A step of a reaction: u diffuses into x, v into y, and then both react, from x and y back to u and v. The two"
        " diffusions need nothing of each other. Capture a step as a graph that forks and joins, and launch it for every step."
    ),
    entry=HostFunction(
        "evolve",
        (
            Array("u", _shape, "inout"),
            Array("v", _shape, "inout"),
            Array("x", _shape, "scratch"),
            Array("y", _shape, "scratch"),
            Scalar("steps", lambda s: s["steps"]),
        ),
    ),
    cases=(_case(1, 2), _case(127, 3), _case(256, 2), _case(1009, 2)),
    secret=_secret,
    inputs=_inputs,
    reference=_reference,
    tolerance=Tolerance(relative=4e-5),  # sums of 201 terms in float32, twelve steps: 6e-6 in 60 draws
    rubric=(
        *rules.correct_host(values=3, hazards=1),
        rules.structure(rules.as_given, 0, code="SLOW", launches=_launches),
        rules.fast(
            3, "Which kernels of a step need nothing of each other? Does the timeline show them at the same time?"
        ),
        rules.structure(rules.launches_as_graph, 3, share=1.0, graphs=1),
    ),
    hints=(
        "Draw the three kernels of a step as boxes, with an arrow wherever one reads what another wrote. Which two boxes have no"
        " arrow between them?",
        "A builder is split in two, each branch gets its diffusion, and the join of the branches gets the reaction. Complete it"
        " once; then a step is one launch.",
        "left, right = builder.split(2); diffuse[blocks, THREADS, left](u, x) and the same for right, v and y;"
        " builder = GraphBuilder.join(left, right); react[blocks, THREADS, builder](x, y, u, v);"
        " graph = builder.end_building().complete()",
    ),
    speed=Speed(bar=1.3, modelled=_case(1000, 12), measured=_case(1 << 12, 200)),
)
