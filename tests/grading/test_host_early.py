"""What a host function does to page-locked memory too early is found when it is recorded, at its own line."""

import numpy as np
import pytest
from test_host import HEAD, cells, played, record

from grader.evidence import CaseRun, Draw, Evidence
from grader.rules.correctness import race_free

STAGED = """
staging, s = cuda.pinned_array(x.size, np.float32), cuda.stream()
staging[:] = x
d = cuda.to_device(staging, stream=s)
twice[1, 128, s](d, d)
d.copy_to_host(staging, stream=s)
{wait}
y[:] = staging
s.synchronize()
"""
TWICE = """
staging, s = cuda.pinned_array(x.size, np.float32), cuda.stream()
d, e = cuda.device_array(x.size, np.float32), cuda.device_array(x.size, np.float32)
staging[:] = 1
d.copy_to_device(staging, stream=s)
{wait}
staging[:] = x
e.copy_to_device(staging, stream=s)
twice[1, 128, s](e, e)
e.copy_to_host(y, stream=s)
s.synchronize()
"""


MAPPED = """
shared, s = cuda.mapped_array(x.size, np.float32), cuda.stream()
shared[:] = x
twice[1, 128, s](shared, shared)
{wait}
y[:] = shared
s.synchronize()
"""


def line_of(body: str, text: str) -> int:
    """Where the submission has it."""
    return (HEAD + "def solve(x, y):\n" + body.strip()).split("\n").index(text) + 1


CASES = [
    (STAGED, "y[:] = staging", "d.copy_to_host(staging, stream=s)", "pageable", "the host reads byte 0"),
    (TWICE, "staging[:] = x", "d.copy_to_device(staging, stream=s)", "pinned", "the host writes byte 0"),
    (MAPPED, "y[:] = shared", "twice[1, 128, s](shared, shared)", "pageable", "the host reads byte 0"),
]
IDS = ["reads", "writes", "reads what a kernel writes"]


@pytest.mark.parametrize(("body", "early", "asked", "y", "words"), CASES, ids=IDS)
def test_an_early_touch_is_found_at_its_line(bench, body, early, asked, y, words):
    body = body.format(wait="pass")
    _, built = record(bench, body, y=y)
    (found,) = built.early
    assert (found.finding.line, found.asked) == (line_of(body, early), line_of(body, asked))
    assert words in found.finding.message and found.finding.tool == "racecheck"


@pytest.mark.parametrize(("body", "early", "asked", "y", "words"), CASES, ids=IDS)
def test_the_same_after_a_wait_is_left_in_peace(bench, body, early, asked, y, words):
    _, built = record(bench, body.format(wait="s.synchronize()"), y=y)
    assert built.error is None and built.early == ()


def test_it_is_found_where_the_calls_depend_on_the_data(bench):
    body = STAGED.format(wait="pass").replace("twice[1, 128, s]", "twice[1, 128 + int(x[0]), s]")
    problem, built = record(bench, body, y="pageable")
    assert built.live
    draws = [Draw(case, problem.inputs(np.random.default_rng(4), case.sizes)) for case in problem.cases]
    known, programs = bench.record_for(cells(body), problem, built, draws)
    assert len(programs) == len(draws)
    assert {(each.case, each.finding.line) for each in known.early} == {
        (case.name, line_of(body, "y[:] = staging")) for case in problem.cases
    }


def test_what_the_replay_sees_as_well_is_told_once(bench):
    body = TWICE.format(wait="pass")
    problem, built = record(bench, body)
    _, x, result = played(bench, body, sanitize=True)
    assert [f.line for f in result.findings] == [line_of(body, "d.copy_to_device(staging, stream=s)")]
    case = problem.cases[0]
    e = Evidence(problem, built, (CaseRun(case, {"x": x}, {}, (result,)),))
    assert [f.line for _, f in e.findings("racecheck")] == [line_of(body, "staging[:] = x")]
    check = race_free(e)
    assert not check.passed and f"line {line_of(body, 'staging[:] = x')}: the host writes" in check.message
