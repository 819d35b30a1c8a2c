"""Unit 00: a kernel with two mistakes, to mend."""

import numpy as np

from grader import rules
from grader.problems.inputs import near, values
from grader.problems.model import Array, Case, Kernel, Problem, Tolerance

BLOCK = 128


def _shape(sizes):
    return (sizes["n"],)


def _inputs(rng, sizes):
    return {"x": values(rng, sizes["n"])}


def _neighbours(x):
    padded = np.pad(x, 1)
    return padded[:-2] + 2.0 * x + padded[2:]


def _reference(inputs, sizes):
    return {"y": _neighbours(inputs["x"].astype("f8"))}


def _scale(inputs):
    return {"y": _neighbours(np.abs(inputs["x"]).astype("f8"))}


def _secret(rng):
    return [Case({"n": n}, secret=True) for n in near(rng, BLOCK, 1000)]


PROBLEM = Problem(
    name="00_mend",
    title="Mend a broken kernel",
    statement=(
        "Each block copies its part of x, and one neighbour on either side, to shared memory, and computes"
        " y[i] = x[i-1] + 2 * x[i] + x[i+1], with zero beyond both ends. Two mistakes are in it."
    ),
    entry=Kernel(
        "mend",
        (Array("x", _shape), Array("y", _shape, "output")),
        grid=lambda sizes: (-(-sizes["n"] // BLOCK),),
        block=lambda sizes: (BLOCK,),
    ),
    cases=tuple(Case({"n": n}) for n in (1, 127, 128, 129, 1021)),
    secret=_secret,
    inputs=_inputs,
    reference=_reference,
    tolerance=Tolerance(relative=1e-6, scale=_scale),
    rubric=rules.correct(values=4, hazards=6),
    hints=(
        "One mistake makes the last element of a block wrong, the other depends on which warp is faster.",
        "Which thread fetches the right-hand neighbour of the block, and does everybody wait until it has?",
        "The right-hand halo is for thread BLOCK - 1 to fetch; then cuda.syncthreads(), before anybody reads.",
    ),
)
