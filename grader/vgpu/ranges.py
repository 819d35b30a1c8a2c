"""Ranges of addresses that do not overlap, found by any address in them: a context's memory, a process's allocations."""

from __future__ import annotations

import bisect


class Ranges(dict):
    """First address -> an object with `address` and `end` (the address after its last byte).

    Iteration is in the order of insertion; `ordered` is by address. Changed by assignment to a key and by `pop` alone.
    """

    def __init__(self):
        super().__init__()
        self._starts: list[int] = []

    def __setitem__(self, address: int, item) -> None:
        if address not in self:
            bisect.insort(self._starts, address)
        super().__setitem__(address, item)

    def pop(self, address: int, *default):
        """Take the range that starts here out. Raises KeyError, unless there is a default."""
        if address in self:
            del self._starts[bisect.bisect_left(self._starts, address)]
        return super().pop(address, *default)

    def find(self, address: int):
        """The range that holds this address, or None."""
        k = bisect.bisect_right(self._starts, address)
        if not k:
            return None
        item = self[self._starts[k - 1]]
        return item if address < item.end else None

    def overlapping(self, address: int, nbytes: int):
        """A range that has a byte of [address, address + nbytes), or None."""
        k = bisect.bisect_left(self._starts, address + nbytes)
        item = self[self._starts[k - 1]] if k else None
        return item if item is not None and item.end > address else None

    def nearest(self, address: int):
        """The range that lies closest to this address, or None."""
        k = bisect.bisect_right(self._starts, address)
        near = [self[start] for start in self._starts[max(0, k - 1) : k + 1]]
        return min(near, key=lambda a: max(a.address - address, address - a.end + 1, 0), default=None)

    def ordered(self) -> list:
        """All of them by address."""
        return [self[start] for start in self._starts]
