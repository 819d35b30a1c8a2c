"""Unit 00: a map by a grid that is smaller than the array."""

from grader import rules
from grader.problems.inputs import near, values
from grader.problems.model import Array, Case, Kernel, Problem, Speed


def _shape(sizes):
    return (sizes["n"],)


def _inputs(rng, sizes):
    return {"x": values(rng, sizes["n"])}


def _reference(inputs, sizes):
    x = inputs["x"].astype("f8")
    return {"y": x * x + 1.0}


def _secret(rng):
    return [Case({"n": n}, secret=True) for n in near(rng, 900, 2100)]


PROBLEM = Problem(
    name="00_grid_stride",
    title="A grid-stride map",
    statement="Compute y[i] = x[i] * x[i] + 1 for every i, however long x is: the grid has a fixed number of threads.",
    entry=Kernel(
        "grid_stride",
        (Array("x", _shape), Array("y", _shape, "output")),
        grid=lambda sizes: (432 if sizes["n"] > 10_000 else 4,),
        block=lambda sizes: (256 if sizes["n"] > 10_000 else 128,),
    ),
    cases=tuple(Case({"n": n}) for n in (1, 127, 512, 1000, 4099)),
    secret=_secret,
    inputs=_inputs,
    reference=_reference,
    rubric=(
        *rules.correct(values=4, hazards=2),
        rules.fast(2, "Let neighbouring threads take neighbouring elements: start at cuda.grid(1)."),
        rules.structure(rules.coalesced, 2),
    ),
    hints=(
        "There are fewer threads than elements. Which elements should thread 0 take, besides x[0]?",
        "Start each thread at its own number and let it move on by as many elements as the grid has threads."
        " Neighbouring threads then always work on neighbouring elements, which is what memory likes.",
        "for i in range(first, x.size, cuda.gridsize(1)):",
    ),
    speed=Speed(bar=1.2, modelled=Case({"n": 1 << 21}), measured=Case({"n": 1 << 27})),
)
