"""Frames on the pipes."""

import struct

import pytest

from grader.sandbox.wire import FrameError, FrameTooLarge, Reader, pack


def reader(data: bytes = b"", max_header: int = 100, max_blobs: int = 100) -> Reader:
    made = Reader(max_header, max_blobs)
    made.feed(data)
    return made


def test_a_frame_survives_any_cutting():
    raw = b"".join(pack({"a": "é"}, [b"12", b"", b"345"])) * 2
    made, frames = reader(), []
    for at in range(len(raw)):
        made.feed(raw[at : at + 1])
        while (frame := made.next()) is not None:
            frames.append(frame)
    assert frames == [({"a": "é"}, [b"12", b"", b"345"])] * 2
    assert not made.pending


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        (b"x" * 12, FrameError),
        (struct.pack("<4sII", b"CCF1", 101, 0), FrameTooLarge),
        (struct.pack("<4sII", b"CCF1", 1, 5000), FrameTooLarge),
        (struct.pack("<4sIIQ", b"CCF1", 1, 1, 101), FrameTooLarge),
        (struct.pack("<4sIIQQ", b"CCF1", 1, 2, 1 << 63, 1 << 63), FrameTooLarge),
        (struct.pack("<4sII", b"CCF1", 2, 0) + b"[]", FrameError),
        (struct.pack("<4sII", b"CCF1", 2, 0) + b"\xff\xff", FrameError),
        (struct.pack("<4sII", b"CCF1", 9, 0) + b'{"a":NaN}', FrameError),
        (struct.pack("<4sII", b"CCF1", 90, 0) + b"[" * 90, FrameError),
    ],
    ids=["stray", "header", "count", "blob", "overflow", "no-object", "no-text", "nan", "nested"],
)
def test_hostile_frames_are_refused(raw, error):
    with pytest.raises(error):
        reader(raw).next()


@pytest.mark.parametrize("header", [{"x": float("inf")}, {"x": b""}], ids=str)
def test_what_json_cannot_carry_is_not_packed(header):
    with pytest.raises((TypeError, ValueError)):
        pack(header)
