"""What of a replay the results depend on, as the device's process tells it."""

from dataclasses import replace

import pytest
from test_replay import N, X, Y, launch, play, program

from grader.program import Buffer, Copy, Fill, Graph, GraphLaunch, HostCopy, Node, Place, Prefetch, Sync

SIZE = 4 * N
TEMP, OTHER = Buffer(SIZE, "device", "temp"), Buffer(SIZE, "device", "temp")
MANAGED, PINNED = Buffer(SIZE, "managed", "temp"), Buffer(SIZE, "host", "temp")
LARGE = Buffer(17 << 20, "device", "temp")  # no shadow
STREAMS = ("legacy", "non-blocking", "non-blocking")
IN = Copy(Place(2, 0), Place(0, 0), SIZE, stream=1)
THERE, AGAIN = launch(2, 1, stream=1), launch(2, 1, stream=2)
ASIDE = launch(0, 3, stream=2)  # reads the input, and nobody reads what it writes
WAIT = Sync("context")

CASES = {  # name -> (operations, kind of buffer 3, streams that count, pieces of work that do not)
    "a copy and a kernel": ((IN, THERE), OTHER, 1, 0),
    "a kernel whose result nobody reads": ((IN, ASIDE, THERE), OTHER, 1, 1),
    "a copy that nobody reads": ((IN, replace(IN, to=Place(3, 0), stream=2), THERE), OTHER, 1, 1),
    "a result that is computed twice": ((IN, THERE, WAIT, AGAIN), OTHER, 2, 1),
    "a memset that is overwritten": ((Fill(Place(2, 0), 4, 7, N, stream=1), IN, THERE), OTHER, 1, 1),
    "half of a memset that is overwritten": (
        (Fill(Place(2, 0), 4, 7, N, stream=1), replace(IN, nbytes=SIZE // 2), THERE), OTHER, 1, 0,
    ),
    "nodes of a graph": (
        (Graph(0, (Node(IN), Node(ASIDE, (0,)), Node(THERE, (0,)))), GraphLaunch(0, 1)), OTHER, 1, 1,
    ),
    "a prefetch of what is used": (
        (replace(IN, to=Place(3, 0)), Prefetch(Place(3, 0), SIZE, "device", 1), launch(3, 1, stream=1)), MANAGED, 1, 0,
    ),
    "a prefetch of what is not used": ((IN, Prefetch(Place(3, 0), SIZE, "device", 1), THERE), MANAGED, 1, 1),
    "what the host copies on": (
        (replace(IN, to=Place(3, 0)), WAIT, HostCopy(Place(1, 0), Place(3, 0), SIZE)), PINNED, 1, 0,
    ),
    "what a kernel may have read unseen": (
        (replace(IN, to=Place(3, 0), stream=2), WAIT, IN, THERE), LARGE, 2, 0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", CASES)
def test_only_work_that_a_result_depends_on_counts(bench, what):
    ops, other, streams, left = CASES[what]
    output = replace(Y, kind="pageable") if "host copies" in what else Y
    built = program(*ops, buffers=(X, output, TEMP, other), streams=STREAMS, clock="host")
    (result,) = play(bench, built, sanitize=True)
    assert result.fault is None
    assert (result.counters["needed_streams"], result.counters["unneeded"]) == (streams, left)


def test_the_copies_that_count_are_timed_alone(bench):
    long = Copy(Place(3, 0), Place(4, 0), 8 << 20, stream=2)
    buffers = (X, Y, TEMP, Buffer(8 << 20, "device", "temp"), Buffer(8 << 20, "host", "temp"))
    built = program(IN, long, THERE, buffers=(replace(X, kind="host"), *buffers[1:]), streams=STREAMS, clock="host")
    (result,) = play(bench, built, sanitize=True)
    assert result.counters["copies_us"] > 100 > result.counters["needed_copies_us"] > 0


def test_without_sanitizers_nobody_knows(bench):
    (result,) = play(bench, program(IN, THERE, buffers=(X, Y, TEMP), streams=STREAMS, clock="host"))
    assert "unneeded" not in result.counters
