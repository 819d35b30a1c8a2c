"""What a bench finds out about its machine before it grades anything."""

import pytest

from grader import bench as bench_module
from grader.sandbox import SandboxError
from grader.sandbox.doctor import Report


def test_a_bench_attacks_its_own_sandbox_at_the_start(bench):
    assert bench.level >= 1


def test_a_machine_that_does_not_hold_is_refused_unless_trusted(monkeypatch):
    weak = Report(0, (("no TCP", False), ("no UDP", True)), "no seccomp")
    monkeypatch.setattr(bench_module.doctor, "protections", lambda zygote: weak)
    with pytest.raises(SandboxError, match="not so: no TCP"):
        bench_module.Bench("virtual:a100")
    with bench_module.Bench("virtual:a100", trust=True) as trusted:
        assert trusted.level == 0
