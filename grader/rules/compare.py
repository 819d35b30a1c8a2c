"""Compare outputs with the reference and say what kind of mistake a difference looks like."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from types import EllipsisType

import numpy as np

from grader.evidence import Arrays

FLOAT16_ROUNDING = 2.0**-10
AT_A_TIME = 1 << 15  # elements that are compared: all that is made of them stays in the cache, a fourfold gain


@dataclass(frozen=True)
class Difference:
    """An output that is not as it should be."""

    array: str
    wrong: int  # elements
    size: int  # elements in all
    index: tuple[int, ...]  # first wrong element
    expected: float
    got: float
    kind: str  # one of KINDS
    unwritten: bool  # the element still holds the poison

    def sentence(self) -> str:
        """ "y[768] should be 1.25, was never written; 232 of 1000 elements are wrong. Looks like ..."."""
        at = f"{self.array}[{', '.join(map(str, self.index))}]"
        got = "was never written" if self.unwritten else f"is {self.got:.7g}"
        return (
            f"{at} should be {self.expected:.7g}, {got}; {self.wrong} of {self.size} elements are wrong."
            f" {KINDS[self.kind]}"
        ).rstrip()


KINDS = {
    "unwritten": "Nothing was written at all: is the gap still empty, or does the kernel return early?",
    "tail": "All of them lie at the end: the last part, which does not fill a block or a stride, is left out.",
    "hole": "Some elements are never written.",
    "shifted": "The values are right but off by one place.",
    "transposed": "The values are right but rows and columns are swapped.",
    "copied": "The output is the input.",
    "overflow": "Not a finite number: an overflow, a division by zero, or memory that nobody wrote.",
    "precision": "Close, but not to float32 precision: is something computed or stored in a smaller type?",
    "scaled": "Every wrong value is the right one times the same factor: is something added twice or left out?",
    "edge": "Only the first or last row or column is wrong: look at the border.",
    "values": "",
}


def bound(expected: np.ndarray, relative: float, absolute: float, scale: np.ndarray | None) -> np.ndarray:
    """Largest allowed |got - expected|, per element."""
    return absolute + relative * (np.abs(expected) if scale is None else np.asarray(scale, np.float64))


def compare(expected: Arrays, got: Arrays, tolerance, inputs: Arrays, poison: int) -> Difference | None:
    """The first output that differs from the reference, diagnosed; None if all agree.

    `tolerance` is a `grader.problems.model.Tolerance`. NaN and infinity never agree.
    """
    scales = tolerance.scale(inputs) if tolerance.scale else {}
    for name, want in expected.items():
        scale = scales.get(name)
        scale = None if scale is None else np.broadcast_to(scale, want.shape)
        if not all(_agree(want, got[name], scale, part, tolerance) for part in _parts(want.shape)):
            have = got[name].astype(np.float64)
            limit = bound(want, tolerance.relative, tolerance.absolute, scale)
            bad = ~_within(have, want, limit)
            return _diagnose(name, want, got[name], have, bad, limit, inputs, poison)
    return None


def _parts(shape: tuple[int, ...]) -> list[slice | EllipsisType]:
    """Slices of the first axis, of some AT_A_TIME elements each."""
    if not shape:
        return [...]
    rows = max(1, AT_A_TIME * shape[0] // max(1, prod(shape)))
    return [slice(i, i + rows) for i in range(0, shape[0], rows)]


def _agree(want, got, scale, part: slice | EllipsisType, tolerance) -> bool:
    limit = bound(want[part], tolerance.relative, tolerance.absolute, None if scale is None else scale[part])
    return bool(_within(got[part].astype(np.float64), want[part], limit).all())


def _within(have: np.ndarray, want: np.ndarray, limit: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        off = np.subtract(have, want)
        return np.abs(off) <= limit


def _diagnose(name, want, raw, have, bad, limit, inputs, poison) -> Difference:
    unwritten = still_poison(raw, poison)
    index = tuple(int(i) for i in np.argwhere(bad)[0])
    close = _closeness(limit)
    kind = "values"
    for test, label in _TESTS:
        if test(_Case(want, have, bad, unwritten, inputs, close)):
            kind = label
            break
    return Difference(
        name, int(bad.sum()), want.size, index, float(want[index]), float(have[index]), kind, bool(unwritten[index])
    )


def still_poison(raw: np.ndarray, poison: int) -> np.ndarray:
    """Which elements still hold the poison byte everywhere."""
    raw = np.ascontiguousarray(raw)
    return (raw.view(np.uint8).reshape(*raw.shape, raw.itemsize) == poison).all(axis=-1)


@dataclass(frozen=True)
class _Case:
    want: np.ndarray
    have: np.ndarray
    bad: np.ndarray
    unwritten: np.ndarray
    inputs: Arrays
    close: Callable[[np.ndarray, np.ndarray], bool]


def _closeness(limit: np.ndarray) -> Callable[[np.ndarray, np.ndarray], bool]:
    widest = float(limit.max())
    return lambda a, b: a.size > 0 and bool(np.mean(np.abs(a - b) <= widest) > 0.9)


def _unwritten(c: _Case) -> bool:
    return bool(c.unwritten.all())


def _at_the_end(c: _Case) -> bool:
    flat = c.bad.reshape(-1)
    first = int(np.argmax(flat))
    return first > 0 and bool(flat[first:].all())


def _holes(c: _Case) -> bool:
    return bool(c.unwritten[c.bad].all())


def _not_finite(c: _Case) -> bool:
    return bool((~np.isfinite(c.have[c.bad])).any()) or bool((np.abs(c.have[c.bad]) > 1e30).any())


def _shifted(c: _Case) -> bool:
    a, b = c.want.reshape(-1), c.have.reshape(-1)
    return a.size > 3 and (c.close(a[1:], b[:-1]) or c.close(a[:-1], b[1:]))


def _transposed(c: _Case) -> bool:
    if c.want.ndim != 2 or 1 in c.want.shape:
        return False
    return c.close(c.want.T.reshape(-1), c.have.reshape(-1))


def _copied(c: _Case) -> bool:
    arrays = (x for x in c.inputs.values() if x.size == c.want.size)
    return any(c.close(x.reshape(-1).astype(np.float64), c.have.reshape(-1)) for x in arrays)


def _imprecise(c: _Case) -> bool:
    want, have = c.want[c.bad], c.have[c.bad]
    return bool((np.abs(want - have) <= 8 * FLOAT16_ROUNDING * np.abs(c.want).max()).all())


def _scaled(c: _Case) -> bool:
    want, have = c.want[c.bad], c.have[c.bad]
    if want.size < 3 or not want.all():
        return False
    factor = have / want
    return bool(np.ptp(factor) <= 1e-3 * abs(factor.mean())) and abs(factor.mean()) > 1e-3


def _edge(c: _Case) -> bool:
    inner = c.bad[tuple(slice(1, -1) for _ in c.bad.shape)]
    return inner.size > 0 and not inner.any()


_TESTS = (
    (_unwritten, "unwritten"),
    (_at_the_end, "tail"),
    (_holes, "hole"),
    (_not_finite, "overflow"),
    (_transposed, "transposed"),
    (_copied, "copied"),
    (_shifted, "shifted"),
    (_edge, "edge"),
    (_imprecise, "precision"),
    (_scaled, "scaled"),
)
