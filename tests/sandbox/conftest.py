"""One zygote for most tests: starting it costs a second, a job in it a few milliseconds."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.sandbox import Zygote

HERE = str(Path(__file__).parent)


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    os.environ["SECRET_OF_THE_GRADER"] = "42"
    with Zygote("jobs:warm", path=[HERE]) as shared:
        yield shared
