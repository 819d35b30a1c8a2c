"""The laboratory's pictures."""

from types import SimpleNamespace

from grader.kit.lab import _lanes


def span(start: float, end: float) -> SimpleNamespace:
    return SimpleNamespace(start_us=start, end_us=end)


def test_what_ran_at_the_same_time_lies_in_lanes_of_its_own():
    a, b, c, d = span(0, 10), span(5, 12), span(10, 20), span(11, 13)
    assert _lanes([d, c, b, a]) == [[a, c], [b], [d]]
    assert _lanes([a, c]) == [[a, c]]
    assert _lanes([a, b], unseen=b.start_us) == [[a, b]]  # no eye would see that they overlap
    assert _lanes([]) == []
