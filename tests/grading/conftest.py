"""One bench for all tests that grade for real: its processes start once."""

import pytest

from grader.bench import Bench


@pytest.fixture(scope="session")
def bench():
    """A virtual A100 and a process for student code."""
    with Bench("virtual:a100") as found:
        yield found
