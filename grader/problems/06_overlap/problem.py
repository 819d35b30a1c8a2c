"""Unit 06: copies in, kernels and copies out of a chunked array, at the same time."""

import numpy as np

from grader import rules
from grader.problems.inputs import near, values
from grader.problems.model import Array, Case, HostFunction, Problem, Speed, Tolerance


def _shape(sizes):
    return (sizes["n"],)


def _inputs(rng, sizes):
    return {"h_x": values(rng, sizes["n"])}


def _reference(inputs, sizes):
    x = inputs["h_x"].astype("f8")
    return {"h_y": x * x + np.where(x > 0, 2.0, 1.0)}


def _case(n, secret=False):
    return Case({"n": n}, secret)


def _secret(rng):
    return [_case(n, secret=True) for n in near(rng, 2000, 30_000)]


PROBLEM = Problem(
    name="06_overlap",
    title="A pipeline of chunks",
    statement=(
        "The kernel brighten computes h_y from h_x. Both lie in pinned memory at the host; d_x and d_y are arrays of the"
        " same size on the device. Write the host's code: copy in, compute and copy out in chunks that overlap."
    ),
    entry=HostFunction(
        "overlap",
        (
            Array("h_x", _shape, where="pinned"),
            Array("h_y", _shape, "output", where="pinned"),
            Array("d_x", _shape, "scratch"),
            Array("d_y", _shape, "scratch"),
        ),
    ),
    cases=tuple(_case(n) for n in (1, 2, 7, 1009, 4096, 40_000)),
    secret=_secret,
    inputs=_inputs,
    reference=_reference,
    tolerance=Tolerance(relative=1e-6),
    rubric=(
        *rules.correct_host(values=3, hazards=1),
        rules.structure(rules.as_given, 0, code="SLOW", launches=lambda sizes: {"brighten": rules.Given((4, 128))}),
        rules.fast(3, "Draw the timeline: which engine is idle while another works? Which call makes the others wait?"),
        rules.structure(rules.overlaps, 2, share=0.4),
        rules.structure(rules.copies_pinned_memory, 1),
    ),
    hints=(
        "One stream keeps its order: copy in, kernel, copy out. What may a second stream do in the meantime, if it"
        " has another part of the array?",
        "Give the chunks to three or four streams in turn. In its stream a chunk is copied in, computed and copied"
        " out; every call names the stream. Wait for all streams at the end.",
        "part = slice(first, min(first + size, n)), then d_x[part].copy_to_device(h_x[part], stream=s),"
        " brighten[BLOCKS, THREADS, s](d_x[part], d_y[part]) and d_y[part].copy_to_host(h_y[part], stream=s).",
    ),
    version=2,
    speed=Speed(bar=1.6, modelled=_case(1 << 19), measured=_case(1 << 24)),
)
