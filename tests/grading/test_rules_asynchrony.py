"""Rules on asynchronous copies go by what warps did, not by what stands in the code."""

import pytest

from grader import problems, rules
from grader.evidence import Built, CaseRun, Evidence, RunResult
from grader.program import Buffer, Launch, Program

PROBLEM = problems.get("05_specialised")
ALL = b".version 8.0\nmbarrier.init mbarrier.arrive mbarrier.test_wait\n"


def evidence(ptx=b".version 8.0\n", **counters) -> Evidence:
    program = Program.make([Buffer(4, "device", "temp")], [ptx], [Launch(0, "k", (1, 1, 1), (32, 1, 1), 0, b"")])
    result = RunResult("NVIDIA A100", "modelled", counters=counters)
    return Evidence(PROBLEM, Built({"any": program}), (CaseRun(PROBLEM.cases[0], {}, {}, (result,)),))


@pytest.mark.parametrize(
    ("counters", "groups", "holds"),
    [
        ({"async_waits_leaving_1": 8}, 1, True),
        ({"async_waits_leaving_1": 8}, 2, False),
        (
            {"async_waits_leaving_2": 6, "async_waits_leaving_1": 1, "async_waits_leaving_0": 1},
            2,
            True,
        ),  # the last tiles
        ({"async_waits_leaving_0": 8, "async_waits_leaving_2": 0}, 2, False),  # it stands there, but nobody comes there
        ({"async_waits_leaving_0": 8, "async_waits_leaving_2": 1}, 2, False),
        ({"async_waits_leaving_0": 1, "async_arrivals": 20, "mbarrier_waits": 20}, 2, True),
        ({"async_waits_leaving_0": 8, "mbarrier_waits": 20}, 2, False),  # no copy arrives there
        ({"async_arrivals": 20}, 2, False),  # nobody waits
        ({"async_waits_leaving_0": 8, "mbarrier_waits": 1}, 2, False),
        ({"shared_requests": 8}, 1, False),
        ({}, 1, None),
    ],
)
def test_copies_ahead_counts_the_waits_that_happen(counters, groups, holds):
    assert rules.copies_ahead(evidence(**counters), groups).passed is holds


@pytest.mark.parametrize(
    ("ptx", "counters", "holds"),
    [
        (ALL, {"mbarrier_waits": 40, "block_barriers": 5}, True),
        (ALL, {"mbarrier_waits": 1, "block_barriers": 40}, False),
        (ALL.replace(b"arrive", b"other"), {"mbarrier_waits": 40}, False),
        (ALL, {}, None),
    ],
    ids=("waits", "for show", "nobody arrives", "not counted"),
)
def test_an_mbarrier_has_to_be_what_warps_wait_at(ptx, counters, holds):
    assert rules.waits_at_mbarriers(evidence(ptx, **counters)).passed is holds


@pytest.mark.parametrize(
    ("counters", "holds"),
    [
        ({"global_load_requests": 4, "async_requests": 4}, True),
        ({"global_load_requests": 4, "async_requests": 3}, False),
        ({"global_load_requests": 4, "async_requests": 4, "global_atomic_requests": 4}, False),  # reads of another kind
        ({}, None),
    ],
)
def test_all_that_reads_global_memory_is_to_be_a_copy(counters, holds):
    assert rules.copies_asynchronously(evidence(**counters)).passed is holds
