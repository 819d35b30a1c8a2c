"""Which frame a finding about the host names."""

from pathlib import Path

import pytest

import grader
from grader.vgpu.sanitize import host

OURS = Path(grader.__file__).parent
NOWHERE = ("", 0)


@pytest.mark.parametrize(
    "file",
    [
        OURS.parent / "grader2" / "answer.py",  # beside ours, and not ours
        OURS.parent / "grader_answer.py",
        Path(pytest.__file__).parents[2] / "site-packages-of-mine" / "answer.py",
    ],
)
def test_a_program_is_named_wherever_it_lies(file):
    stack = [(str(OURS / "kit" / "copies.py"), 3), (str(file), 7)]
    assert host.place_among(stack) == (str(file), 7)


@pytest.mark.parametrize("file", [pytest.__file__, "<string>", str(OURS / "kit" / "copies.py")])
def test_libraries_and_the_kit_are_passed_over(file):
    assert host.place_among([(file, 3)]) == NOWHERE


@pytest.mark.parametrize("file", ["bench.py", "vgpu/driver/memory.py"])
def test_what_we_do_ourselves_has_no_place(file):
    assert host.place_among([(str(OURS / file), 3), ("/home/me/answer.py", 7)]) is None
