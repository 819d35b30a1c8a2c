"""Unit 04: the tiled matrix product, its tiles copied ahead of their use."""

import numpy as np

from grader import rules
from grader.problems.inputs import near, values
from grader.problems.model import Array, Case, Kernel, Problem, Tolerance

TILE = 16


def _inputs(rng, sizes):
    return {"a": values(rng, sizes["m"], sizes["k"]), "b": values(rng, sizes["k"], sizes["n"])}


def _reference(inputs, sizes):
    return {"c": inputs["a"].astype("f8") @ inputs["b"].astype("f8")}


def _scale(inputs):
    return {"c": np.abs(inputs["a"]).astype("f8") @ np.abs(inputs["b"]).astype("f8")}


def _case(m, k, n, secret=False):
    return Case({"m": m, "k": k, "n": n}, secret)


def _secret(rng):
    m, k, n = near(rng, 1, 4, 7, spread=3)
    long = 16 * (k + 5)  # more steps than any public size has
    return [_case(16 * m, long, 16 * n, secret=True), _case(16 * n, 16, 16 * m, secret=True)]


PROBLEM = Problem(
    name="04_matmul",
    title="A matrix product that copies ahead",
    statement=(
        "Compute c = a @ b with 16 x 16 tiles in shared memory, copied with cp_async: while a pair of tiles is in use,"
        " the next pair is on its way. All sizes are multiples of 16."
    ),
    entry=Kernel(
        "matmul",
        (
            Array("a", lambda s: (s["m"], s["k"])),
            Array("b", lambda s: (s["k"], s["n"])),
            Array("c", lambda s: (s["m"], s["n"]), "output"),
        ),
        grid=lambda s: (s["n"] // TILE, s["m"] // TILE),
        block=lambda s: (TILE, TILE),
    ),
    cases=(_case(16, 16, 16), _case(16, 32, 16), _case(32, 48, 16), _case(48, 80, 64)),
    secret=_secret,
    inputs=_inputs,
    reference=_reference,
    tolerance=Tolerance(relative=4e-6, scale=_scale),
    rubric=(
        *rules.correct(values=3, hazards=3),
        rules.structure(rules.copies_asynchronously, 2),
        rules.structure(rules.copies_ahead, 2),
    ),
    hints=(
        "Two tiles of each matrix are needed: one in use, one that is being filled. Which is which in step k?",
        "Start the copy of tile 0 before the loop. In step k start tile k + 1, commit, then wait until only the newest"
        " group is under way.",
        "cp_async_commit() in every step, also in the last one, where there is nothing left to copy: then"
        " cp_async_wait(1) means tile k in every step. A second cuda.syncthreads() before the tile is overwritten.",
    ),
)
