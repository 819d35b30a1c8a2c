"""Kernels of the kind that a CUDA course has, each with a case: inputs, a launch, and what NumPy says of the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Case:
    """One kernel run once."""

    name: str
    run: Callable[[], None]  # launches and asserts
    finds: tuple[str, ...] = ()  # tools that must report: the kernel is faulty by design
    hopper: bool = False  # needs cc 9.0


CASES: dict[str, Case] = {}


def case(finds: tuple[str, ...] = (), hopper: bool = False):
    """Register the function, which launches one kernel and checks what it did."""

    def register(run: Callable[[], None]):
        if run.__name__ in CASES:
            raise ValueError(f"two cases {run.__name__}")
        CASES[run.__name__] = Case(run.__name__, run, finds, hopper)
        return run

    return register


def rng() -> np.random.Generator:
    """The same numbers in every run."""
    return np.random.default_rng(1234)


def floats(*shape: int, low: float = -1.0, high: float = 1.0) -> np.ndarray:
    """float32 in [low, high)."""
    return rng().uniform(low, high, shape).astype(np.float32)


def ints(*shape: int, low: int = 0, high: int = 100, dtype=np.int32) -> np.ndarray:
    """Integers in [low, high)."""
    return rng().integers(low, high, shape).astype(dtype)


def blocks(n: int, threads: int) -> int:
    """How many blocks cover n items."""
    return -(-n // threads)
