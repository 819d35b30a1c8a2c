"""Ranges of addresses, against a plain search."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from grader.vgpu.ranges import Ranges


@dataclass(frozen=True)
class Piece:
    address: int
    end: int


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 4), st.booleans()), max_size=12), st.integers(0, 90))
def test_what_holds_an_address_overlaps_a_range_or_is_nearest(pieces, address):
    ranges, live, at = Ranges(), [], 0
    for size, gap, kept in pieces:
        piece = Piece(at + gap, at + gap + size)
        at = piece.end
        ranges[piece.address] = piece
        if kept:
            live.append(piece)
        else:
            assert ranges.pop(piece.address) is piece
    assert ranges.ordered() == live
    assert ranges.find(address) == next((p for p in live if p.address <= address < p.end), None)
    some = ranges.overlapping(address, 3)
    assert (some is None) == (not any(p.address < address + 3 and p.end > address for p in live))
    assert some is None or (some.address < address + 3 and some.end > address)

    def distance(p):
        return max(p.address - address, address - p.end + 1, 0)

    near = ranges.nearest(address)
    assert (near is None) == (not live)
    assert near is None or distance(near) == min(map(distance, live))
