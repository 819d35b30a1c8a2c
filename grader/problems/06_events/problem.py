"""Unit 06: two streams in step, by events and without the host."""

import numpy as np

from grader import rules
from grader.problems.inputs import near, values
from grader.problems.model import Array, Case, HostFunction, Problem, Scalar, Speed, Tolerance


def _shape(sizes):
    return (sizes["n"],)


def _inputs(rng, sizes):
    return {"x": np.abs(values(rng, sizes["n"]))}  # all positive: nothing cancels


def _reference(inputs, sizes):
    x = inputs["x"].astype("f8")
    for _ in range(sizes["rounds"]):
        t = 0.5 * x
        edges = np.concatenate([t[:1], t, t[-1:]])
        x = 0.5 * (edges[:-2] + edges[2:]) + np.sqrt(t * t + 1)
    return {"x": x}


def _case(n, rounds, secret=False):
    return Case({"n": n, "rounds": rounds}, secret)


def _launches(sizes):
    wide, narrow = (rules.Given(shape, sizes["rounds"]) for shape in ((64, 256), (8, 128)))
    return {"mix": wide, "smooth": narrow, "bend": narrow, "join": wide}


def _secret(rng):
    return [_case(n, int(rng.integers(2, 6)), secret=True) for n in near(rng, 600, 9000)]


PROBLEM = Problem(
    name="06_events",
    title="Fork and join by events",
    statement=(
        "In every round mix makes t of x, smooth makes u of t, bend makes v of t, and join makes the next x of u and v."
        " smooth and bend need nothing of each other: let them run at the same time, and let nobody but the streams wait."
    ),
    entry=HostFunction(
        "fork_join",
        (
            Array("x", _shape, "inout"),
            Array("t", _shape, "scratch"),
            Array("u", _shape, "scratch"),
            Array("v", _shape, "scratch"),
            Scalar("rounds", lambda s: s["rounds"]),
        ),
    ),
    cases=(_case(1, 1), _case(7, 2), _case(1000, 3), _case(4099, 1), _case(20_000, 5)),
    secret=_secret,
    inputs=_inputs,
    reference=_reference,
    tolerance=Tolerance(relative=4e-6),
    rubric=(
        *rules.correct_host(values=2, hazards=1),
        rules.structure(rules.as_given, 0, code="SLOW", launches=_launches),
        rules.fast(4, "Draw the timeline, a row for each stream: do smooth and bend run side by side?"),
        rules.structure(rules.spreads_over_streams, 1, least=2),
        rules.structure(rules.few_host_waits, 2, most=2),
    ),
    hints=(
        "Which of the four kernels has to wait for which? Draw the arrows of two rounds, and give each kernel a"
        " stream so that few arrows go from one stream to the other.",
        "mix, smooth and join stay in stream a; only bend goes to stream b. Two arrows cross: from mix to bend,"
        " and from bend to join. An event is recorded in the stream where the arrow starts, after the kernel.",
        "mix in a; forked.record(a); forked.wait(b); bend in b; joined.record(b); smooth in a; joined.wait(a);"
        " join in a.",
    ),
    version=2,
    speed=Speed(bar=1.4, modelled=_case(1 << 17, 3), measured=_case(1 << 20, 10)),
)
