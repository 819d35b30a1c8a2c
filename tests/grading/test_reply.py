"""What a submission's process replies, when it replies what it likes."""

import pytest

from grader import problems, reply
from grader.problems.model import Problem
from grader.sandbox import Outcome
from grader.sandbox.wire import Reader, pack

KERNEL, FUNCTION = problems.get("00_grid_stride"), problems.get("06_overlap")
EARLY = ["n = 1", {"tool": "racecheck", "message": "the host reads", "line": 3, "file": "cell 1"}, 2]


def built(problem: Problem, given: bool = False, text: tuple[str, str] = ("", ""), **changes):
    """What is known after a reply of no programs, of which `text` replaces a piece of the JSON."""
    header = {"failed_cells": [], "error": None, "live": "", "early": [], "programs": {}} | changes
    reader = Reader(1 << 20, 1 << 20)
    (fixed,) = pack(header)
    changed = fixed[12:].decode().replace(*text).encode() if text[0] else fixed[12:]
    reader.feed(fixed[:4] + len(changed).to_bytes(4, "little") + bytes(4) + changed)
    header, _ = reader.next()
    return reply.built(Outcome("ok", "", header=header), problem, {}, given)


def test_a_function_may_depend_on_its_inputs_and_a_kernel_may_not():
    assert built(FUNCTION, live="it does").live == "it does"
    found = built(KERNEL, live="it does")
    assert (found.live, found.error.code) == ("", "RTE")
    assert "a kernel is launched, whatever its inputs are" in found.error.message


def test_who_was_given_the_inputs_cannot_ask_for_them_again():
    assert built(FUNCTION, given=True, live="it does").live == ""


def test_early_touches_are_taken_as_they_are_told():
    (early,) = built(FUNCTION, early=[EARLY]).early
    assert (early.case, early.finding.line, early.finding.file, early.asked) == ("n = 1", 3, "cell 1", 2)
    assert len(built(FUNCTION, early=[EARLY] * 100).early) == reply.MOST_EARLY


@pytest.mark.parametrize("line", ["1e999", "-1", "2.5", '"3"', "true", "[3]", "9" * 30])
def test_a_line_that_is_none_is_the_submissions_error_and_not_the_graders(line):
    for was, now in (('"line":3', f'"line":{line}'), ("},2]", f"}},{line}]")):
        found = built(FUNCTION, early=[EARLY], text=(was, now))
        assert found.error.code == "RTE" and "no recording" in found.error.message


@pytest.mark.parametrize(
    "changes",
    [{"early": 5}, {"early": [[1, 2]]}, {"early": [["n", "text", 1]]}, {"error": "no"}, {"failed_cells": None}],
)
def test_a_reply_of_another_form_is_no_recording(changes):
    assert "not of the right form" in built(FUNCTION, **changes).error.message
