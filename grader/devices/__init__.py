"""Devices on which a `Program` is replayed. One file each, the same few names in each; chosen, never fallen back to.

    device = devices.open("virtual:a100")        # or "cuda", "cuda:1", "virtual", "auto"
    device.replay([Run(program, inputs)])        # -> [RunResult]; shorter than asked when one of them faulted
    device.close()

The device lives in a process of its own; this side knows only bytes. A real GPU measures, a virtual one models.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from grader.evidence import Arrays, RunResult
from grader.program import Program

__all__ = ["Device", "DeviceLost", "Run", "UnknownDevice", "open", "resolve"]


# Names of the virtual cards, as `grader.vgpu.devices` has them; this side imports nothing of the virtual GPU.
CARDS = ("t4", "a100", "l4", "rtx4090", "h100", "h200")


class UnknownDevice(ValueError):
    """No such device here; the text says what there is."""


class DeviceLost(RuntimeError):
    """The process that held the device is gone or confused, through no fault of the program: the grader's failure."""


@dataclass(frozen=True)
class Run:
    """One replay that is asked for."""

    program: Program
    inputs: Arrays  # by name; contiguous, of the program's dtypes and shapes
    poison: int = 0xCB  # byte that fills outputs and fresh memory
    sanitize: bool = False  # watch for hazards, where the device can
    timed: bool = False  # flush caches first; only then do `seconds` and counters mean much


class Device(Protocol):
    """What every device offers."""

    spec: str  # "virtual:a100", "cuda:0": how a user asks for it again
    kind: str  # "modelled" or "measured"
    sanitizes: bool  # can watch for hazards

    def describe(self) -> dict:
        """{"name", "kind", "cc", "driver", "spec"}."""

    def replay(self, runs: Sequence[Run]) -> list[RunResult]:
        """Run them in order; stops after the first that faults. DeviceLost when the grader itself failed."""

    def close(self) -> None:
        """Give the device back."""


def resolve(spec: str) -> str:
    """The full name of what a user asked for: "auto" -> "cuda:0" or "virtual:a100", "h100*4@pcie" -> "virtual:h100*4@pcie".

    UnknownDevice for anything else.
    """
    from grader.devices import cuda

    family, _, rest = spec.strip().partition(":")
    family, rest = family.lower(), rest if ".toml" in rest.lower() else rest.lower()  # a file's name is left as it is
    if family == "auto" and not rest:
        return "cuda:0" if cuda.count() else "virtual:a100"
    if family == "virtual":
        return f"virtual:{rest or 'a100'}"
    if family == "cuda" and (not rest or rest.isdecimal()):
        there = cuda.count()
        if int(rest or 0) < there:
            return f"cuda:{int(rest or 0)}"
        raise UnknownDevice(f"device {spec!r}: this machine has {there or 'no'} NVIDIA GPU{'s' if there > 1 else ''}")
    if not rest and re.split("[*@]", family)[0] in CARDS:
        return f"virtual:{family}"
    raise UnknownDevice(
        f"no device {spec!r}; there are auto, cuda[:N] and virtual[:NAME], where NAME is {', '.join(CARDS[:-1])} or {CARDS[-1]}, several as in a100*4, linked as in a100*4@pcie"
    )


def open(spec: str, *, trust: bool = False) -> Device:
    """The device of that name (see `resolve`). `trust`: also where the machine cannot lock a process in."""
    from grader.devices import cuda, virtual

    spec = resolve(spec)
    return (virtual if spec.startswith("virtual") else cuda).open(spec, trust=trust)
