"""What needs an NVIDIA GPU: `python -m tests.gpu` runs it and writes the results down.

Everything runs in processes of its own, so the virtual GPU that other tests have switched on is not in the way. Tests
that take the `device` fixture run on the virtual GPU as well: the same code, so that it is known to work before a card
sees it.
"""

import json
import os

import pytest

from grader.devices import cuda

MISSING = "no NVIDIA GPU on this machine: what only a card can show was not run"


@pytest.fixture(scope="session")
def card() -> str:
    """ "cuda:0"; skips where there is none."""
    if not cuda.count():
        pytest.skip(MISSING)
    return "cuda:0"


@pytest.fixture(scope="session", params=["virtual:a100", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def device(request) -> str:
    """The virtual GPU, and then the card."""
    return request.getfixturevalue("card") if request.param.startswith("cuda") else request.param


@pytest.fixture(scope="session")
def note():
    """note(name, value): a figure for the results file that `python -m tests.gpu` names in CAMP_GPU_RESULTS."""
    path, kept = os.environ.get("CAMP_GPU_RESULTS"), {}
    yield kept.__setitem__
    if path and kept:
        with open(path, "w", encoding="utf-8") as f:
            json.dump(kept, f, indent=1, sort_keys=True)
            f.write("\n")
