"""The words in which an exercise is written down. Judge side: NumPy only."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from grader.rules.check import Rule

Sizes = Mapping[str, int]
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """One size at which a submission is run."""

    sizes: dict[str, int]  # {"n": 1000}
    secret: bool = False  # drawn by the grader; its numbers are not shown before the run

    @property
    def name(self) -> str:
        """ "n = 1000": how reports speak of this case."""
        return ", ".join(f"{k} = {v}" for k, v in self.sizes.items())


@dataclass(frozen=True)
class Array:
    """An array parameter of the function that the student writes."""

    name: str
    shape: Callable[[Sizes], tuple[int, ...]]
    # "input" (read only), "output" (poisoned before every run), "inout", or "scratch" (poisoned, and nobody looks)
    role: str = "input"
    dtype: str = "<f4"
    where: str = "device"  # or, for a host function, "pinned", "pageable" (a plain NumPy array) or "managed"

    def nbytes(self, sizes: Sizes) -> int:
        """Bytes of its elements."""
        return math.prod(self.shape(sizes)) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Scalar:
    """A number parameter of the function that the student writes."""

    name: str
    value: Callable[[Sizes], int | float]
    dtype: str = "<i4"


@dataclass(frozen=True)
class _Entry:
    name: str  # what the submission must define
    params: tuple[Array | Scalar, ...]  # in the order of the call

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The array parameters."""
        return tuple(p for p in self.params if isinstance(p, Array))

    @property
    def signature(self) -> str:
        """ "transpose(a, out)"."""
        return f"{self.name}({', '.join(p.name for p in self.params)})"


@dataclass(frozen=True)
class Kernel(_Entry):
    """The student writes a kernel; the grader launches it."""

    grid: Callable[[Sizes], tuple[int, ...]]  # blocks, as the student would write it in [grid, block]
    block: Callable[[Sizes], tuple[int, ...]]  # threads
    clock = "device"  # as in grader.program.Program


@dataclass(frozen=True)
class HostFunction(_Entry):
    """The student writes the host's code: a plain function that copies, launches and waits by itself.

    It is called once a size, with arrays that lie where the exercise says, and recorded; outputs must be complete when
    it returns. What is timed is the whole call, by the host's clock.
    """

    devices: int = 1  # GPUs of the machine that it is written for; the arrays lie on the first
    clock = "host"


@dataclass(frozen=True)
class Tolerance:
    """|got - expected| <= absolute + relative * scale, where scale is |expected| unless the exercise gives one."""

    relative: float = 1e-6  # float32 rounds at 6e-8, float16 at 5e-4: the bound lies between
    absolute: float = 0.0
    scale: Callable[[Arrays], Arrays] | None = None  # per output, e.g. the sum of |a||b| of a dot product


@dataclass(frozen=True)
class Speed:
    """What counts as fast. Ratios are time(baseline) / time(submission), measured in the same rounds."""

    bar: float  # below this ratio a right answer is SLOW
    modelled: Case  # the size that is timed on a virtual GPU
    measured: Case  # the size that is timed on a real one, unless that takes too long or too short there
    flop: Callable[[Sizes], float] | None = None  # operations that no answer can do without


@dataclass(frozen=True)
class Problem:
    """An exercise: what is asked, how an answer is checked, what it is worth."""

    name: str  # "02_transpose": also its folder
    title: str
    statement: str  # one or two sentences
    entry: Kernel | HostFunction
    cases: tuple[Case, ...]  # public sizes
    secret: Callable[[np.random.Generator], list[Case]]  # more sizes, near the public ones
    inputs: Callable[[np.random.Generator, Sizes], Arrays]  # fresh content, adversarial
    reference: Callable[[Arrays, Sizes], Arrays]  # float64 answer for each output
    rubric: tuple[Rule, ...]
    hints: tuple[str, str, str]  # each tells more than the one before
    tolerance: Tolerance = field(default_factory=Tolerance)
    speed: Speed | None = None  # None: only right or wrong
    version: int = 1  # raise it when marks change

    @property
    def unit(self) -> str:
        """The two digits of its unit."""
        return self.name[:2]

    @property
    def max_points(self) -> float:
        """Points of a perfect answer."""
        return sum(r.points for r in self.rubric)

    @cached_property
    def folder(self) -> Path:
        """Where baseline.py and reference.py lie."""
        return Path(__file__).parent / self.name

    def source(self, side: str) -> str:
        """Text of the trusted kernel "baseline" or "reference"."""
        return (self.folder / f"{side}.py").read_text(encoding="utf-8")
