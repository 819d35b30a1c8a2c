"""Frames on the pipes between client and child: lengths, a JSON header, raw blobs. Nothing is ever unpickled.

    "CCF1", u32 length of the header, u32 number of blobs, u64 length of each blob, header (UTF-8 JSON object), blobs

Little-endian. Both ends use this module; `Reader` is the one that meets hostile bytes.
"""

import json
import struct
from collections.abc import Sequence

MAX_BLOBS = 4096
_MAGIC = b"CCF1"  # so that stray bytes are not taken for an enormous frame
_FIXED = struct.Struct("<4sII")


class FrameError(ValueError):
    """Bytes that are not a frame, or one over its limits."""


class FrameTooLarge(FrameError):
    """A frame that announces more than its limits allow."""


def pack(header: dict, blobs: Sequence[bytes] = ()) -> list[bytes]:
    """Give the pieces of one frame. Raises TypeError or ValueError for what JSON cannot carry, NaN included."""
    views = [memoryview(blob).cast("B") for blob in blobs]
    text = json.dumps(header, allow_nan=False, separators=(",", ":")).encode()
    lengths = struct.pack(f"<{len(views)}Q", *(view.nbytes for view in views))
    return [_FIXED.pack(_MAGIC, len(text), len(views)) + lengths + text, *views]


class Reader:
    """Collects the bytes of one pipe and gives the frames in it.

    Its limits are bytes: of a header, and of all blobs of a frame together.
    """

    def __init__(self, max_header: int, max_blobs: int) -> None:
        self.max_header, self.max_blobs = max_header, max_blobs
        self.pending = bytearray()

    def feed(self, data: bytes) -> None:
        """Add what was read."""
        self.pending += data

    def next(self) -> tuple[dict, list[bytes]] | None:
        """Take the next frame, or None while it is incomplete. Raises FrameError."""
        if len(self.pending) < _FIXED.size:
            return None
        magic, header_length, count = _FIXED.unpack_from(self.pending)
        if magic != _MAGIC:
            raise FrameError("not a frame")
        if header_length > self.max_header or count > MAX_BLOBS:
            raise FrameTooLarge(f"a header of {header_length} bytes with {count} blobs")
        start = _FIXED.size + 8 * count
        if len(self.pending) < start:
            return None
        lengths = struct.unpack_from(f"<{count}Q", self.pending, _FIXED.size)
        if sum(lengths) > self.max_blobs:
            raise FrameTooLarge(f"{sum(lengths)} bytes of blobs")
        if len(self.pending) < start + header_length + sum(lengths):
            return None
        header = _parse(bytes(self.pending[start : start + header_length]))
        blobs, at = [], start + header_length
        for length in lengths:
            blobs.append(bytes(memoryview(self.pending)[at : at + length]))
            at += length
        del self.pending[:at]
        return header, blobs


def _parse(text: bytes) -> dict:
    try:
        header = json.loads(text.decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"header is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise FrameError("header is not a JSON object")
    return header


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
