"""Unit 07: a table that kernels and the host read in turns."""

import numpy as np

from grader import rules
from grader.problems.inputs import near, values
from grader.problems.model import Array, Case, HostFunction, Problem, Speed, Tolerance

ROUNDS = 8


def _shape(sizes):
    return (sizes["n"],)


def _inputs(rng, sizes):
    return {"table": values(rng, sizes["n"]), "x": values(rng, sizes["n"])}


def _reference(inputs, sizes):
    table, y = inputs["table"].astype("f8"), inputs["x"].astype("f8")
    for _ in range(ROUNDS):
        y = 0.5 * y + table
    return {"y": y, "saved": inputs["table"].astype("f8")}


def _scale(inputs):
    return {"y": np.abs(inputs["x"]) + 2 * np.abs(inputs["table"]), "saved": np.abs(inputs["table"])}


def _case(n, secret=False):
    return Case({"n": n}, secret)


def _secret(rng):
    return [_case(n, secret=True) for n in near(rng, 3000, 50_000)]


def _launches(sizes):
    return {"start": rules.Given(), "add": rules.Given(times=ROUNDS)}


PROBLEM = Problem(
    name="07_advise",
    title="A table for both sides",
    statement=(
        "table is managed and lies at the host. In each of 8 rounds a kernel reads all of it, and then the host saves an"
        " eighth of it. Nobody writes to it. Stop it from travelling back and forth, and leave the rounds as they are."
    ),
    entry=HostFunction(
        "rounds",
        (
            Array("table", _shape, where="managed"),
            Array("x", _shape),
            Array("y", _shape, "output"),
            Array("saved", _shape, "output", where="pageable"),
        ),
    ),
    cases=tuple(_case(n) for n in (1, 3, 8, 1009, 16_384, 70_000)),
    secret=_secret,
    inputs=_inputs,
    reference=_reference,
    tolerance=Tolerance(relative=1e-6, scale=_scale),
    rubric=(
        *rules.correct_host(values=3, hazards=1),
        rules.structure(rules.as_given, 0, code="SLOW", launches=_launches),
        rules.structure(rules.takes_turns, 0, code="SLOW", kernel="add", output="saved", rounds=ROUNDS),
        rules.fast(4, "Both sides only read. What would have to be true for neither to take the table from the other?"),
        rules.structure(rules.no_page_faults, 2),
    ),
    hints=(
        "Count how often each page of the table travels. Does anybody change it on the way?",
        "Data that is only read may be in two places at once. Say so before the first kernel, by advice; then"
        " bring it to the device once, by a prefetch.",
        'advise(table, "read mostly"), then prefetch(table), then the loop as it is.',
    ),
    version=2,
    speed=Speed(bar=3.0, modelled=_case(1 << 19), measured=_case(1 << 24)),
)
