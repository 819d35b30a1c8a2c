"""Unit 03: two buffers in turn, and one barrier a group."""

import numpy as np

from grader import rules
from grader.problems.inputs import values
from grader.problems.model import Array, Case, Kernel, Problem, Scalar, Speed, Tolerance

GROUP = 64


def _shape(sizes):
    return (sizes["groups"], GROUP)


def _inputs(rng, sizes):
    return {"x": values(rng, sizes["groups"], GROUP)}


def _reference(inputs, sizes):
    x = inputs["x"].astype("f8")
    return {"y": np.array([np.abs(g[:, None] - g[: sizes["marks"]]).sum(axis=1) for g in x])}


def _case(groups, marks, secret=False):
    return Case({"groups": groups, "marks": marks}, secret)


def _secret(rng):
    even, odd = (int(n) for n in (rng.integers(8, 16) * 2, rng.integers(16, 24) * 2 + 1))
    return [_case(n, int(rng.integers(10, GROUP)), secret=True) for n in (even, odd)]


PROBLEM = Problem(
    name="03_buffers",
    title="Two buffers, one barrier",
    statement=f"y[g, t] is the sum of |x[g, k] - x[g, t]| over the first `marks` of the {GROUP} numbers of group g: group by group in shared memory,"
    " with two buffers in turn, so that the next group is on its way while this one is used and a barrier a group is enough.",
    entry=Kernel(
        "spread",
        (Array("x", _shape), Array("y", _shape, "output"), Scalar("marks", lambda s: s["marks"])),
        grid=lambda sizes: (40 if sizes["groups"] > 100 else 2,),  # a block for each SM of the smallest card
        block=lambda sizes: (GROUP,),
    ),
    cases=(_case(1, 64), _case(2, 5), _case(3, 16), _case(8, 7), _case(37, 33)),
    secret=_secret,
    inputs=_inputs,
    reference=_reference,
    tolerance=Tolerance(relative=1e-5),
    rubric=(
        *rules.correct(values=3, hazards=2),
        rules.fast(2, "The next group must be on its way while this one is used, and not be needed before."),
        rules.structure(
            rules.few_barriers,
            2,
            hint="Who may still read the buffer that is written next, and which barrier have they all come past?",
        ),
        rules.structure(rules.few_bytes, 1, hint="Each number should come from global memory once."),
    ),
    hints=(
        "With one buffer there are two barriers: one until the group is there, and one until nobody reads it any more. Which of"
        " them is there only because there is one buffer?",
        "Two shared arrays, even and odd, and a body of the loop that does a group with each: the number that comes next is in a"
        " register. Register to even, barrier, ask for the next number, sum over even; then the same with odd.",
        "while g < x.shape[0]: me = coming; even[t] = me; barrier; if g + step < x.shape[0]: coming = x[g + step, t]; the sum over"
        " even; g += step; if g < x.shape[0]: the same with odd. No barrier behind the sums.",
    ),
    speed=Speed(bar=1.4, modelled=_case(4000, 16), measured=_case(1 << 19, 16)),
)
