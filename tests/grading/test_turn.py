"""Two graders on one GPU take turns, whatever becomes of the one that has it."""

import os
import subprocess
import sys

import pytest

from grader.devices import turn

TAKE = """
import sys
from grader.devices.turn import turn
with turn(sys.argv[1:]):
    print("held", flush=True)
    sys.stdin.read()
print("over", flush=True)
"""


@pytest.fixture
def grader(tmp_path):
    """Starts a process that takes its turn on these cards, and keeps it until its input is at its end."""
    started = []

    def start(*uuids):
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        command = [sys.executable, "-c", TAKE, *uuids]
        started.append(subprocess.Popen(command, env={**os.environ, "TMPDIR": str(tmp_path)}, text=True, **pipes))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            pipe.close()


@pytest.mark.parametrize("killed", [False, True])
def test_the_second_waits_says_so_and_goes_on(grader, killed):
    first = grader("a1")
    assert first.stdout.readline() == "held\n"
    second = grader("a1")
    assert "another grader uses the GPU; waiting for" in second.stderr.readline()
    assert first.poll() is None  # it still has it
    if killed:
        first.kill()
    else:
        first.stdin.close()
    assert second.stdout.readline() == "held\n"


def test_other_cards_are_nobodys_concern(grader):
    first, second = grader("a1"), grader("b2")
    assert (first.stdout.readline(), second.stdout.readline()) == ("held\n", "held\n")


def test_who_wants_two_waits_for_either(grader):
    first = grader("b2")
    assert first.stdout.readline() == "held\n"
    both = grader("b2", "a1", "b2")
    assert "b2" in both.stderr.readline()
    first.stdin.close()
    assert both.stdout.readline() == "held\n"
    both.stdin.close()
    assert both.stdout.readline() == "over\n"


def test_a_link_in_a_locks_place_is_not_followed(tmp_path, monkeypatch):
    monkeypatch.setattr(turn.tempfile, "tempdir", str(tmp_path))
    turn.lock_file("a1").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic"), turn.turn(["a1"]):
        pass
    assert not (tmp_path / "precious").exists()
    assert os.listdir(tmp_path) == ["cuda-camp-gpu-a1.lock"]
