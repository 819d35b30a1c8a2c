"""A part of numba-cuda's own tests, small enough for every run.

Nothing fails that is not listed, and nothing that is listed passes.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from .expected import compare, load
from .runner import all_files, run_module

CUDAPY = ("test_atomics", "test_exception", "test_lineinfo", "test_recursion", "test_warp_ops")
FEW = [file for file in all_files() if file.startswith("doc_examples/")] + [f"cudapy/{name}" for name in CUDAPY]
LISTED_AT_MOST = 13  # lower it when an entry goes; it never rises


@pytest.fixture(scope="module")
def runs():
    """Module -> its result to come; two at a time."""
    with ThreadPoolExecutor(2) as pool:
        yield {file: pool.submit(run_module, file) for file in FEW}


@pytest.mark.parametrize("file", FEW)
def test_as_on_a_card(file, runs):
    result = runs[file].result()
    assert result.outcomes, "no tests were found"
    assert not compare(result.outcomes, load())


def test_the_list_only_shrinks():
    assert len(load()) <= LISTED_AT_MOST
