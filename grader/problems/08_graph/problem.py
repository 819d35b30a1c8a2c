"""Unit 08: the steps of a frame as a graph."""

import numpy as np

from grader import rules
from grader.problems.inputs import near, values
from grader.problems.model import Array, Case, HostFunction, Problem, Speed, Tolerance

STEPS, THREADS = 100, 128


def _inputs(rng, sizes):
    return {"x": np.abs(values(rng, sizes["n"]))}  # all positive: nothing cancels


def _reference(inputs, sizes):
    x, frames = inputs["x"].astype("f8"), []
    for _ in range(sizes["frames"]):
        for _ in range(STEPS):
            edges = np.concatenate([x[:1], x, x[-1:]])
            x = 0.25 * edges[:-2] + 0.5 * x + 0.25 * edges[2:]
        frames.append(x)
    return {"x": x, "frames": np.array(frames)}


def _case(n, frames, secret=False):
    return Case({"n": n, "frames": frames}, secret)


def _launches(sizes):
    return {"step": rules.Given((-(-sizes["n"] // THREADS), THREADS), STEPS * sizes["frames"])}


def _secret(rng):
    return [_case(n, int(rng.integers(2, 4)), secret=True) for n in near(rng, 200, 600)]


PROBLEM = Problem(
    name="08_graph",
    title="A film of heat, by a graph",
    statement=(
        f"step lets heat flow along a rod, from one array to the other. A frame is {STEPS} steps, after which x is copied to"
        " the next row of frames. Capture the steps of a frame once, and launch them as a graph."
    ),
    entry=HostFunction(
        "film",
        (
            Array("x", lambda s: (s["n"],), "inout"),
            Array("y", lambda s: (s["n"],), "scratch"),
            Array("frames", lambda s: (s["frames"], s["n"]), "output", where="pinned"),
        ),
    ),
    cases=(_case(1, 1), _case(33, 3), _case(127, 2), _case(1009, 1)),
    secret=_secret,
    inputs=_inputs,
    reference=_reference,
    tolerance=Tolerance(relative=3e-5),
    rubric=(
        *rules.correct_host(values=3, hazards=1),
        rules.structure(rules.as_given, 0, code="SLOW", launches=_launches),
        rules.fast(3, "How many launches does the host make for a frame? What is made anew for every frame?"),
        rules.structure(rules.launches_as_graph, 3, share=1.0, graphs=1),
    ),
    hints=(
        f"A frame is always the same {STEPS} launches with the same arguments. How often do they have to be told?",
        "Open a builder on the stream, make the launches of one frame with the builder in the stream's place, end"
        " it, complete it. Then every frame is one launch of the graph and one copy, in the same stream.",
        "builder = stream.create_graph_builder().begin_building(), the loop over step[blocks, THREADS,"
        " builder](source, target), graph = builder.end_building().complete(); then for each frame"
        " graph.launch(stream) and the copy.",
    ),
    version=4,
    speed=Speed(bar=1.2, modelled=_case(400, 36), measured=_case(1 << 14, 40)),
)
