"""The level comes from attacks that would get through without the sandbox."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from grader.sandbox import JobError, Outcome, SandboxError, Zygote, privileges
from grader.sandbox import doctor as doctor_module
from grader.sandbox.attacks import ATTACKS
from grader.sandbox.doctor import protections

HERE = Path(__file__).parent
NEEDS_ROOT = {name for name in ATTACKS if name.startswith("the grader's memory")}


def test_every_attack_but_looking_is_stopped(zygote):
    report = protections(zygote)
    assert report.level >= 1
    assert {name for name, held in report.probes if not held} <= {"files cannot be seen to exist"}
    assert len(report.probes) >= 15


def test_namespaces_are_not_required():
    with Zygote(path=[str(HERE)], namespaces=False) as plain:
        assert plain.info["namespaces"] == []
        assert protections(plain).level >= 1


def test_a_machine_of_its_own_is_the_operators_word(zygote, monkeypatch):
    assert protections(zygote, own_machine=True).level == 3
    monkeypatch.setenv("GRADER_OWN_MACHINE", "1")
    assert protections(zygote).level == 3
    assert protections(zygote, own_machine=False).level < 3


def test_the_report_reads_as_a_table(zygote):
    text = str(protections(zygote))
    assert text.startswith("level ")
    assert "held  hidden files cannot be read" in text


# One attack, without any lock, on a target of the test; "through" when it got what it wanted.
UNLOCKED = """
import json, sys
from grader.sandbox.attacks import ATTACKS
ATTACKS[sys.argv[1]](json.loads(sys.argv[2]))
print("through")
"""


@pytest.mark.parametrize("name", ATTACKS)
def test_every_attack_gets_through_without_the_sandbox(name):
    privileges.hide()  # which alone stops an ordinary user from looking into this process
    gets_through = name not in NEEDS_ROOT or os.getuid() == 0
    with doctor_module._target() as target:
        words = [sys.executable, "-c", UNLOCKED, name, json.dumps(target.fields)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300)
        got = "through" in done.stdout or target.fields["marker"] in done.stdout
        assert got == gets_through, done.stderr


@pytest.mark.parametrize(
    ("status", "error"), [("no_result", None), ("crashed", None), ("time", None), ("ok", None), ("error", "NameError")]
)
def test_silence_and_bugs_do_not_count_as_held(status, error):
    outcome = Outcome(status, "", error=JobError(error, "", "") if error else None)
    assert not doctor_module._stopped(outcome, "marker")


# Docker's default filter, as far as it matters here: no namespaces, no mounts, no tracing.
LIKE_DOCKER = """
import sys
sys.path.insert(0, sys.argv[1])
from grader.sandbox import privileges, seccomp
rules = seccomp.Filter(seccomp.ALLOW)
rules.answer("unshare setns mount umount2 pivot_root bpf perf_event_open keyctl".split(), seccomp.EPERM)
rules.answer(["clone3"], seccomp.ENOSYS)
rules.if_argument_has("clone", 0, 0x7E020000, seccomp.EPERM, seccomp.ALLOW)
privileges.no_new_privileges()
rules.install()
from grader.sandbox.doctor import protections
print(protections())
"""


def test_in_a_container_without_namespaces_the_level_is_1():
    root = str(HERE.parent.parent)
    done = subprocess.run([sys.executable, "-c", LIKE_DOCKER, root], capture_output=True, text=True, timeout=300)
    assert done.stdout.startswith("level 1"), done.stderr + done.stdout
    assert "no namespaces" in done.stdout


# A kernel without Landlock: submissions must not run, unless they are trusted.
NO_LANDLOCK = """
import sys
sys.path.insert(0, sys.argv[1])
from grader.sandbox import SandboxError, Zygote, privileges, seccomp
rules = seccomp.Filter(seccomp.ALLOW)
rules.answer(["landlock_create_ruleset"], seccomp.ENOSYS)
privileges.no_new_privileges()
rules.install()
from grader.sandbox.doctor import protections
print(protections())
Zygote()
"""


def test_without_landlock_the_level_is_0_and_nothing_runs():
    root = str(HERE.parent.parent)
    done = subprocess.run([sys.executable, "-c", NO_LANDLOCK, root], capture_output=True, text=True, timeout=300)
    assert done.stdout.startswith("level 0"), done.stderr
    assert "OPEN  hidden files cannot be read" in done.stdout
    assert "SandboxError: this machine offers no landlock" in done.stderr


def test_bubblewrap_that_is_missing_cannot_be_demanded(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(SandboxError, match="bubblewrap"):
        Zygote(bwrap=True)
