"""Unit 02: transpose through a tile in shared memory."""

from grader import rules
from grader.problems.inputs import near, values
from grader.problems.model import Array, Case, Kernel, Problem, Speed, Tolerance


def _inputs(rng, sizes):
    return {"a": values(rng, sizes["rows"], sizes["cols"])}


def _reference(inputs, sizes):
    return {"out": inputs["a"].T.astype("f8")}


def _case(rows, cols, secret=False):
    return Case({"rows": rows, "cols": cols}, secret)


def _secret(rng):
    rows, cols = near(rng, 32, 64, spread=20)
    return [_case(rows, cols, secret=True), _case(cols, rows, secret=True)]


PROBLEM = Problem(
    name="02_transpose",
    title="Transpose without bank conflicts",
    statement="Write the transpose of a to out, reading and writing global memory in rows; blocks are 32 x 8 threads.",
    entry=Kernel(
        "transpose",
        (
            Array("a", lambda s: (s["rows"], s["cols"])),
            Array("out", lambda s: (s["cols"], s["rows"]), "output"),
        ),
        grid=lambda s: (-(-s["cols"] // 32), -(-s["rows"] // 32)),
        block=lambda s: (32, 8),
    ),
    cases=(_case(1, 1), _case(32, 32), _case(31, 33), _case(64, 96), _case(7, 101), _case(97, 1)),
    secret=_secret,
    inputs=_inputs,
    reference=_reference,
    tolerance=Tolerance(relative=0.0),
    rubric=(
        *rules.correct(values=3, hazards=1.5),
        rules.fast(2, "The stores of a naive transpose are scattered: turn the tile round in shared memory."),
        rules.structure(rules.coalesced, 1.5),
        rules.structure(rules.no_bank_conflicts, 2, pays_with=("coalesced",)),
    ),
    hints=(
        "Reading rows is fast, writing columns is not. Where could a tile be turned round cheaply?",
        "Load a 32 x 32 tile into shared memory row by row, wait, and write it out row by row with the roles of x"
        " and y swapped. Each of the 32 x 8 threads handles four elements, eight rows apart.",
        "tile = cuda.shared.array((32, 33), float32): the extra column puts the elements of a column in 32 banks."
        " In the output, the tile begins in column 32 * by and row 32 * bx.",
    ),
    version=2,
    speed=Speed(bar=1.4, modelled=_case(1024, 1024), measured=_case(16384, 16384)),
)
