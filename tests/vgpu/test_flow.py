"""Sets of bytes added and taken away, and work that is needed."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from grader.vgpu.driver.flow import Done, Flow, minus, union
from grader.vgpu.sanitize.streams import NOTHING, Extents

ranges = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), max_size=6)


def bytes_of(extents: Extents) -> set[int]:
    """The bytes; the ranges must be sorted and apart from each other."""
    assert (extents.starts < extents.ends).all() and (extents.ends[:-1] < extents.starts[1:]).all()
    return {k for a, b in zip(extents.starts, extents.ends, strict=True) for k in range(a, b)}


def extents_of(pairs) -> tuple[Extents, set[int]]:
    touched = np.zeros(80, bool)
    for start, length in pairs:
        touched[start : start + length] = True
    return Extents.words(0, 1, touched), set(np.flatnonzero(touched).tolist())


@given(ranges, ranges, ranges)
def test_bytes_are_added_and_taken_away(a, b, c):
    (one, ones), (two, twos), (three, threes) = extents_of(a), extents_of(b), extents_of(c)
    assert bytes_of(union(one, two, three)) == ones | twos | threes
    assert bytes_of(minus(one, two)) == ones - twos


def done(kind: str, reads=(), writes=(), changes=()) -> Done:
    parts = (Extents.rows(*part) if part else NOTHING for part in (reads, writes, changes))
    return Done(kind, 1, 0.0, 1.0, *parts)


def needed(*work: Done, results=((100, 10),)) -> list[int]:
    flow = Flow()
    flow._done = work = [replace(w) for w in work]
    found, others = flow.needed(results)
    assert len(found) + others == sum(w.kind != "host" for w in work)
    return [k for k, w in enumerate(work) if any(w is f for f in found)]


IN, OUT = done("h2d", (0, 10), (50, 10)), done("kernel", (50, 10), (100, 10))


def test_what_a_result_depends_on_is_needed_through_what_lies_between():
    assert needed(IN, OUT) == [0, 1]
    assert needed(IN, OUT, done("kernel", (50, 10), (200, 10)), done("set", (), (0, 10))) == [0, 1]


def test_what_is_overwritten_unread_is_not_needed():
    assert needed(IN, OUT, OUT) == [0, 2]
    assert needed(IN, OUT, IN, OUT) == [2, 3]
    half = done("kernel", (50, 5), (100, 5))
    assert needed(IN, OUT, half) == [0, 1, 2]


def test_what_is_added_to_is_needed_with_what_adds():
    add = done("kernel", (50, 10), (), (100, 10))
    assert needed(IN, done("set", (), (100, 10)), add, add) == [0, 1, 2, 3]


def test_what_the_host_takes_over_is_needed():
    assert needed(IN, done("host", (50, 10), (), (100, 10))) == [0]
    assert needed(IN, done("host", (50, 10), (), (300, 10))) == []


def test_a_prefetch_is_needed_when_needed_work_touches_its_bytes_afterwards():
    assert needed(done("prefetch", (50, 4)), done("prefetch", (90, 30)), done("prefetch", (400, 4)), IN, OUT) == [
        0,
        1,
        3,
        4,
    ]
    assert needed(IN, OUT, done("prefetch", (50, 4))) == [0, 1]
