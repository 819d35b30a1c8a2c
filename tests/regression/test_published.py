"""The clock keeps the published experiments' orders, and their figures within 40 %."""

import pytest

from .check import check
from .experiments import EXPERIMENTS


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda e: f"{e.device}: {e.name}")
def test_published_orders_are_kept(experiment):
    result = check(experiment)
    assert result.wrong == []
    assert experiment.source
