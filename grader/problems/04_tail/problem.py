"""Unit 04: a window over a staged tile, whose tail is filled with zeros by the copy itself."""

import numpy as np

from grader import rules
from grader.problems.inputs import near, values
from grader.problems.model import Array, Case, Kernel, Problem, Tolerance

BLOCK = 128


def _shape(sizes):
    return (sizes["n"],)


def _inputs(rng, sizes):
    return {"x": values(rng, sizes["n"])}


def _window(x):
    padded = np.concatenate([x, np.zeros(3)])
    return padded[:-3] + 2 * padded[1:-2] + 3 * padded[2:-1] + 4 * padded[3:]


def _reference(inputs, sizes):
    return {"y": _window(inputs["x"].astype("f8"))}


def _scale(inputs):
    return {"y": _window(np.abs(inputs["x"]).astype("f8"))}


def _secret(rng):
    return [Case({"n": n}, secret=True) for n in near(rng, BLOCK, 1000)]


PROBLEM = Problem(
    name="04_tail",
    title="A tail filled with zeros",
    statement=(
        "y[i] = x[i] + 2 x[i+1] + 3 x[i+2] + 4 x[i+3], with zero beyond the end of x. Each block stages what it needs"
        " in shared memory with cp_async_zfill."
    ),
    entry=Kernel(
        "window",
        (Array("x", _shape), Array("y", _shape, "output")),
        grid=lambda sizes: (-(-sizes["n"] // BLOCK),),
        block=lambda sizes: (BLOCK,),
    ),
    cases=tuple(Case({"n": n}) for n in (1, 3, 127, 128, 131, 1021)),
    secret=_secret,
    inputs=_inputs,
    reference=_reference,
    tolerance=Tolerance(relative=1e-6, scale=_scale),
    rubric=(*rules.correct(values=4, hazards=3), rules.structure(rules.copies_asynchronously, 3)),
    hints=(
        "How many elements of x does a block of 128 threads need? Which of them may lie beyond the end?",
        "Thread t copies tile[t]; threads 0 to 2 copy one more each. Tell cp_async_zfill how many of the 4 bytes"
        " are there: 4, or 0 beyond the end, and then with an index that is inside.",
        "cp_async_zfill(tile, t, x, i if i < n else 0, 4, 4 if i < n else 0); after all copies"
        " cp_async_wait_all(), and then cuda.syncthreads().",
    ),
)
