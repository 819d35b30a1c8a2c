"""The kit's device functions do what they say, are accepted by ptxas for sm_80 and sm_90, and race with nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ON_ALL = ["two_groups", "pairs", "zero_filled", "wide", "arrives_at_an_mbarrier", "named"]


def run(card: str, script: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-W", "ignore", "-m", "grader", "run", "--device", card, str(HERE / script)]
    return subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)


@pytest.mark.parametrize(("card", "names"), [("a100", ON_ALL), ("h100", [*ON_ALL, "bulk"])])
def test_every_function_moves_what_it_should_and_no_sanitizer_complains(card, names):
    done = run(card, "kernels.py")
    assert done.stdout.splitlines() == [f"{name} right" for name in names], done.stderr
    assert done.returncode == 0, done.stderr


def test_misuse_is_refused_with_a_sentence():
    said = {
        "size": "the size in cp_async must be one of 4, 8, 16, not 12",
        "size not constant": "the size in cp_async must be a constant",
        "no array": "cp_async takes arrays, each followed by an index",
        "half an element": "moves 4 bytes, which is no whole number of elements",
        "groups not constant": "the number of groups in cp_async_wait must be a constant",
        "load of float64": "load4 takes a float32 array",
        "store of a number": "store4 writes a tuple of four float32",
    }
    lines = dict(line.split(": ", 1) for line in run("a100", "misuse.py").stdout.splitlines())
    assert {name: text for name, text in said.items() if text not in lines.get(name, "")} == {}


def test_who_waits_at_an_mbarrier_for_ever_is_told_by_the_line_of_the_kernel():
    said = run("a100", "stuck.py").stderr
    assert "synccheck, stuck.py:15: " in said and "at line 15 32 threads" in said


def test_an_unknown_name_lists_those_that_are_there():
    import grader.kit

    with pytest.raises(AttributeError, match=r"no 'cp_asink'; it has .*cp_async, "):
        _ = grader.kit.cp_asink
