"""A launch that takes too long is ended by what it has computed, and not by what else the machine has to do."""

import importlib
import itertools
from types import SimpleNamespace

import pytest

from grader.vgpu.machine import LaunchOptions, Memory, Module, launch

machine = importlib.import_module("grader.vgpu.machine.launch")  # the package has a function of this name
BUSY = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry busy()
{
    .reg .pred %p; .reg .b32 %r;
    mov.u32 %r, 0;
again:
    add.u32 %r, %r, 1;
    setp.lt.u32 %p, %r, 6000000;
    @%p bra again;
    ret;
}
"""


@pytest.fixture(scope="module")
def kernel():
    return Module(BUSY, Memory()).kernels["busy"]


@pytest.fixture
def looks(monkeypatch):
    """looks(seconds): with so much processor time from each look at the clock to the next; there is no other clock."""

    def between(seconds: float) -> list[float]:
        seen, clock = [], itertools.count(0.0, seconds)

        def thread_time() -> float:
            seen.append(next(clock))
            return seen[-1]

        monkeypatch.setattr(machine, "time", SimpleNamespace(thread_time=thread_time))
        return seen

    return between


@pytest.mark.parametrize("watched", [True, False])
def test_a_kernel_that_does_not_get_to_run_is_neither_late_nor_stuck(kernel, looks, watched):
    seen = looks(0.0)
    options = LaunchOptions(racecheck=watched, initcheck=watched, deadline=1e-9)
    result = launch(kernel, (1, 1, 1), (32, 1, 1), b"", options=options)
    assert len(seen) > 2  # the kernel is long enough to be looked at on its way
    assert result.fault is None


def test_a_kernel_that_runs_for_too_long_is_ended(kernel, looks):
    looks(1.0)
    options = LaunchOptions(racecheck=False, initcheck=False, deadline=1.5)
    fault = launch(kernel, (1, 1, 1), (32, 1, 1), b"", options=options).fault
    assert (fault.kind, fault.message) == ("timeout", "the kernel was still running after 2.0 s")
