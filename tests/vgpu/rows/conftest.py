"""Rows are compiled afresh: a kernel kept on disk by an earlier version would hide what the compiler does now."""

import os

import pytest


@pytest.fixture(autouse=True, scope="module")
def _no_disk_cache():
    before = os.environ.get("GRADER_CACHE_DIR")
    os.environ["GRADER_CACHE_DIR"] = ""
    yield
    if before is None:
        del os.environ["GRADER_CACHE_DIR"]
    else:
        os.environ["GRADER_CACHE_DIR"] = before
