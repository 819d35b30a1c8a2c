"""A host function that takes far less than the reference's time is flagged: its kernels are given, it only arranges them."""

from dataclasses import replace

import numpy as np
import pytest
from test_measure import CASE, POLICY, PROBLEM, PROGRAMS, Fake

from grader import measure
from grader.problems.model import HostFunction

KERNEL = PROBLEM.entry
HOST = HostFunction("f", KERNEL.params)


@pytest.mark.parametrize(
    ("entry", "to_reference", "flags"),
    [
        (HOST, 0.5, ("takes 50% of the reference's time: are the kernels still those that are given?",)),
        (HOST, 0.59, ("takes 59% of the reference's time: are the kernels still those that are given?",)),
        (HOST, 0.61, ()),
        (HOST, 1.0, ()),
        (KERNEL, 0.5, ()),  # who writes the kernel may well write a better one
    ],
)
def test_a_host_function_much_faster_than_the_reference_is_flagged(entry, to_reference, flags):
    device, problem = Fake(submission=0.8 * to_reference, reference=0.8), replace(PROBLEM, entry=entry)
    t = measure.compare_sides(device, PROGRAMS, problem, CASE, np.random.default_rng(0), POLICY)
    assert t.to_reference == pytest.approx(to_reference)
    assert t.flags == flags
