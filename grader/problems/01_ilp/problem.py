"""Unit 01: a map by too few warps, made fast by several loads a thread."""

from grader import rules
from grader.problems.inputs import near, values
from grader.problems.model import Array, Case, Kernel, Problem, Speed


def _shape(sizes):
    return (sizes["n"],)


def _inputs(rng, sizes):
    return {"x": values(rng, sizes["n"]) / 4}  # a cube of 100 would not fit into float16, which must be told apart


def _reference(inputs, sizes):
    return {"y": inputs["x"].astype("f8") ** 3}


def _secret(rng):
    return [Case({"n": n}, secret=True) for n in near(rng, 900, 2100)]


PROBLEM = Problem(
    name="01_ilp",
    title="Many loads, few warps",
    statement="Compute y[i] = x[i] ** 3 for every i with few warps: let each thread have several loads under way.",
    entry=Kernel(
        "ilp",
        (Array("x", _shape), Array("y", _shape, "output")),
        grid=lambda sizes: (40 if sizes["n"] > 10_000 else 2,),  # a block for each SM of the smallest card
        block=lambda sizes: (64,),
    ),
    cases=tuple(Case({"n": n}) for n in (1, 127, 512, 1024, 4099)),
    secret=_secret,
    inputs=_inputs,
    reference=_reference,
    rubric=(
        *rules.correct(values=3.5, hazards=1.5),
        rules.fast(
            4,
            "How many loads has a thread asked for before it needs the first? The compiler may not move a load above a"
            " store: that is for you to do.",
        ),
        rules.structure(rules.few_bytes, 1, hint="Let neighbouring threads read neighbouring elements, each one once."),
    ),
    hints=(
        "How many loads are under way on an SM with two warps? What would it take to have eight times as many?",
        "Writing the loop out four times is not enough, if every load still comes after a store. Load several"
        " elements into variables of their own first, then store them all.",
        "In front of the plain loop: while i + 7 * step < x.size: with eight loads x[i], x[i + step], ..., then"
        " eight stores, then i += 8 * step. The plain loop does what is left over.",
    ),
    speed=Speed(bar=2.0, modelled=Case({"n": 1 << 19}), measured=Case({"n": 1 << 26})),
)
