"""The clock keeps the published experiments' orders, and their figures within 40 %."""

from functools import cache

import pytest

from .check import MEAN, Result, check, mean_error
from .experiments import EXPERIMENTS

result = cache(check)


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda e: f"{e.device}: {e.name}")
def test_published_orders_are_kept(experiment):
    assert result(experiment).wrong == []
    assert len(experiment.source) > 20


def test_ratios_are_right_to_a_quarter_on_average():
    assert mean_error([result(experiment) for experiment in EXPERIMENTS]) <= MEAN


def test_a_wrong_order_a_wrong_figure_and_a_gain_where_there_is_none_are_told():
    from .experiments import Experiment, Row

    def judge(*rows: Row) -> Result:
        return check(Experiment("made up", "none", "none", lambda: iter(rows)))

    assert "is modelled as 0.90x" in judge(Row("a", 1, 1, "x", False), Row("b", 1.2, 0.9, "x", False)).wrong[0]
    assert judge(Row("a", 1, 1.41, "x")).wrong == ["a is 1.41 x, 1 published"]
    assert "no gain" in judge(Row("a", 1, 1, "x", False), Row("b", 1, 1.2, "x", False)).wrong[0]
    assert judge(Row("a", 1, 1, "x"), Row("b", 1.5, 1.2, "x")).wrong == []
