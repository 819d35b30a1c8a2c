"""Unit 02: matrix product with tiles in shared memory."""

import numpy as np

from grader import rules
from grader.problems.inputs import near, values
from grader.problems.model import Array, Case, Kernel, Problem, Speed, Tolerance

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
    m, k, n = near(rng, 16, 32, 48, spread=15)
    return [_case(m, k, n, secret=True), _case(n, m, k, secret=True)]


PROBLEM = Problem(
    name="02_matmul",
    title="Tiled matrix product",
    statement="Compute c = a @ b with 16 x 16 tiles of a and b in shared memory; sizes need not be multiples of 16.",
    entry=Kernel(
        "matmul",
        (
            Array("a", lambda s: (s["m"], s["k"])),
            Array("b", lambda s: (s["k"], s["n"])),
            Array("c", lambda s: (s["m"], s["n"]), "output"),
        ),
        grid=lambda s: (-(-s["n"] // TILE), -(-s["m"] // TILE)),
        block=lambda s: (TILE, TILE),
    ),
    cases=(_case(1, 1, 1), _case(16, 16, 16), _case(17, 31, 13), _case(48, 32, 64), _case(5, 67, 33)),
    secret=_secret,
    inputs=_inputs,
    reference=_reference,
    tolerance=Tolerance(relative=4e-6, scale=_scale),
    rubric=(
        *rules.correct(values=3, hazards=2),
        rules.fast(3, "Every element of a is read by a whole row of threads: fetch it once per tile."),
        rules.structure(rules.few_bytes, 2),
    ),
    hints=(
        "Thread (tx, ty) of a block reads row y of a and column x of b. How many threads of the block read the"
        " same row?",
        "Each step: load one element of each tile per thread, wait, multiply sixteen times, wait again. Why is the"
        " second wait needed?",
        "Load zero where a tile reaches beyond the matrix. Two cuda.syncthreads() per step, neither of them inside"
        " an if.",
    ),
    speed=Speed(
        bar=1.2,
        modelled=_case(128, 128, 128),
        measured=_case(4096, 4096, 4096),
        flop=lambda s: 2.0 * s["m"] * s["k"] * s["n"],
    ),
)
