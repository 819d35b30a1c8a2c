"""What the host's own code does to memory, told from the memory's bytes: it makes no driver calls that one could record.

Part of `grader.recording`; runs in the process that the student's code ran in.
"""

import ctypes
from collections.abc import Iterator

import numpy as np

from grader.program import Place

WORD = 4  # bytes: what the host writes is told apart to this grain
# What a piece of memory must hold for a copy of it to be known as one: so many different words, or different bytes.
_TELLING, _BYTES = 4, 3


class HostBytes:
    """The buffers of one recording that the host can reach, by their index in the program."""

    def __init__(self):
        self._at: dict[int, tuple[int, int]] = {}  # buffer -> (address, nbytes)
        self._known: dict[int, np.ndarray] = {}  # of pageable memory: its bytes as the recording has them
        self._watched: set[int] = set()  # arrays whose host writes nobody else tells
        self._kept: set[int] = set()  # memory that may be freed any time: it is not looked at again
        self._fresh: set[int] = set()  # page-locked just now: its contents are about to be told

    def add(self, buffer: int, address: int, nbytes: int) -> None:
        """Memory of which the driver tells what the host writes."""
        self._at[buffer] = address, nbytes

    def watch(self, buffer: int, address: int, nbytes: int) -> None:
        """A pageable array that stays where it is: no driver tells what the host writes to it."""
        self._at[buffer] = address, nbytes
        self._known[buffer] = self._view(buffer).copy()
        self._watched.add(buffer)

    def keep(self, buffer: int, address: int, nbytes: int) -> None:
        """Memory of the program's own, which may be gone after the next operation: what lands there is kept."""
        self._at[buffer] = address, nbytes
        self._known[buffer] = np.zeros(nbytes, np.uint8)
        self._kept.add(buffer)

    def registered(self, buffer: int) -> None:
        """From now on the driver tells what the host writes there, its present contents first."""
        if buffer in self._watched:
            self._watched.remove(buffer)
            self._fresh.add(buffer)

    def unregistered(self, buffer: int) -> None:
        """The reverse of `registered`."""
        if buffer in self._known and buffer not in self._kept:
            self._known[buffer][:] = self._view(buffer)
            self._watched.add(buffer)

    def drop(self, buffer: int) -> None:
        """It is no more."""
        self._at.pop(buffer, None)
        self._known.pop(buffer, None)
        for of in (self._watched, self._kept, self._fresh):
            of.discard(buffer)

    def landed(self, buffer: int, offset: int, nbytes: int) -> None:
        """A copy has just put these bytes there."""
        if buffer in self._known:
            address = self._at[buffer][0]
            self._known[buffer][offset : offset + nbytes] = _bytes(address + offset, nbytes)

    def told_before(self, buffer: int, offset: int, data: bytes) -> bool:
        """The driver tells contents of page-locked memory that the recording has already."""
        if buffer not in self._fresh:
            return False
        self._fresh.remove(buffer)
        return self.holds(buffer, offset, data)

    def holds(self, buffer: int, offset: int, data: bytes) -> bool:
        """As far as the recording knows, these bytes are there."""
        known = self._known.get(buffer)
        return known is not None and known[offset : offset + len(data)].tobytes() == data

    def changes(self) -> Iterator[tuple[int, int, bytes]]:
        """(buffer, offset, bytes) of what the host has written to watched memory since the last call."""
        for buffer in sorted(self._watched):
            known, now = self._known[buffer], self._view(buffer)
            if np.array_equal(now, known):
                continue
            for start, end in _ranges(now, known):
                yield buffer, start, now[start:end].tobytes()
            known[:] = now

    def source_of(self, data: bytes, to: Place | None = None) -> tuple[int, int] | None:
        """(buffer, offset) of host memory that holds the same bytes, where that can be no accident."""
        words = {data[k : k + WORD] for k in range(0, min(len(data), 64 * WORD), WORD)}
        telling = len(words) >= _TELLING or len(set(data[: 64 * WORD])) >= _BYTES
        for buffer, (_, nbytes) in self._at.items():
            if nbytes < len(data) or (to is not None and buffer == to.buffer):
                continue
            held = (self._known[buffer] if buffer in self._kept else self._view(buffer)).tobytes()
            if telling and to is not None and held[to.offset : to.offset + len(data)] == data:
                return buffer, to.offset
            if telling and (at := held.find(data)) >= 0:
                return buffer, at
        return None

    def _view(self, buffer: int) -> np.ndarray:
        return _bytes(*self._at[buffer])


def _bytes(address: int, nbytes: int) -> np.ndarray:
    return np.frombuffer((ctypes.c_uint8 * nbytes).from_address(address), np.uint8)


def _ranges(now: np.ndarray, known: np.ndarray) -> list[tuple[int, int]]:
    """The runs of words that differ, as (start, end) in bytes."""
    different = now != known
    padded = np.zeros(-(-len(different) // WORD) * WORD, bool)
    padded[: len(different)] = different
    words = np.flatnonzero(padded.reshape(-1, WORD).any(axis=1))
    cuts = np.flatnonzero(np.diff(words) > 1)
    starts, ends = [words[0], *words[cuts + 1]], [*words[cuts], words[-1]]
    return [(int(a) * WORD, min((int(b) + 1) * WORD, len(now))) for a, b in zip(starts, ends, strict=True)]
