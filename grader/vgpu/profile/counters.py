"""The counters of a launch: exact sums over the memory sites and blocks of code, by Nsight Compute's definitions."""

from dataclasses import dataclass

import numpy as np

from ..jit import layout as L
from ..model import costs

REQUESTS, LANES, SECTORS, WAVEFRONTS, IDEAL, BYTES, LINES, PASSES = range(8)  # columns of Counters.sites


@dataclass(frozen=True, slots=True)
class Access:
    """What one kind of access did, over the whole grid."""

    requests: float = 0.0  # warp instructions
    lanes: float = 0.0
    sectors: float = 0.0  # of 32 bytes, each request's different ones
    ideal: float = 0.0  # sectors, or wavefronts of shared memory, that the bytes asked for would need
    wavefronts: float = 0.0
    bytes: float = 0.0

    @property
    def sectors_per_request(self) -> float:
        return self.sectors / self.requests if self.requests else 0.0

    @property
    def excessive(self) -> float:
        """Sectors more than needed."""
        return max(0.0, self.sectors - self.ideal)

    @property
    def ways(self) -> float:
        """Wavefronts / ideal wavefronts of shared memory: 1 without bank conflicts, 2 with two-way ones."""
        return self.wavefronts / self.ideal if self.ideal else 0.0

    def __add__(self, other: "Access") -> "Access":
        return Access(*(getattr(self, f) + getattr(other, f) for f in self.__slots__))


@dataclass(frozen=True, slots=True)
class Line:
    """What one line of the student's source did."""

    line: int
    instructions: float  # warp instructions of PTX
    threads: float  # lanes active, on average
    load: Access
    store: Access
    shared: Access


def kind_of(site, row) -> str:
    """ "load", "store", "atomic", "shared load", "shared store", "shared atomic", "local", "copy", "bulk copy"."""
    if site.op.startswith("cp.async.bulk"):
        return "bulk copy"
    if site.op.startswith("cp.async"):
        return "copy"
    if site.space == L.SPACE_LOCAL:
        return "local"
    what = {L.LOAD: "load", L.STORE: "store", L.ATOMIC: "atomic"}.get(site.kind, "load")
    shared = site.space == L.SPACE_SHARED or (site.space == L.SPACE_GENERIC and row[WAVEFRONTS] > 0)
    return f"shared {what}" if shared else what


def access(row, scale: float, shared: bool) -> Access:
    """An Access from a row of Counters.sites."""
    sectors = 0.0 if shared else float(row[SECTORS]) * scale
    wavefronts = float(row[WAVEFRONTS]) * scale
    return Access(
        float(row[REQUESTS]) * scale,
        float(row[LANES]) * scale,
        sectors,
        float(row[IDEAL]) * scale,
        wavefronts,
        float(row[BYTES]) * scale,
    )


def by_kind(counters) -> dict[str, Access]:
    """Accesses of the whole grid by kind; a kind that did not occur is not there."""
    out: dict[str, Access] = {}
    for site, row in zip(counters.code.sites, counters.sites, strict=False):
        if row[REQUESTS]:
            kind = kind_of(site, row)
            out[kind] = out.get(kind, Access()) + access(row, counters.scale, kind.startswith("shared"))
    return out


def by_line(counters) -> list[Line]:
    """The student's lines that did anything, in order."""
    instructions: dict[int, float] = {}
    threads: dict[int, float] = {}
    for code, (runs, lanes, _) in zip(counters.code.blocks, counters.runs, strict=True):
        for _, line, *_ in code:
            instructions[line] = instructions.get(line, 0.0) + float(runs) * counters.scale
            threads[line] = threads.get(line, 0.0) + float(lanes) * counters.scale
    accesses: dict[int, dict[str, Access]] = {}
    for site, row in zip(counters.code.sites, counters.sites, strict=False):
        if row[REQUESTS]:
            kind = kind_of(site, row)
            shared = kind.startswith("shared")
            name = "shared" if shared else "store" if kind == "store" else "load"
            own = accesses.setdefault(site.line, {})
            own[name] = own.get(name, Access()) + access(row, counters.scale, shared)
    return [
        Line(
            n,
            instructions[n],
            threads[n] / instructions[n],
            *(accesses.get(n, {}).get(k, Access()) for k in ("load", "store", "shared")),
        )
        for n in sorted(instructions)
        if instructions[n] and n
    ]


def threads_per_instruction(counters) -> float:
    """Lanes that are active when a warp runs an instruction, on average: 32 without divergence."""
    lengths = np.array([len(code) for code in counters.code.blocks], float)
    runs = float((counters.runs[:, 0] * lengths).sum())
    return float((counters.runs[:, 1] * lengths).sum()) / runs if runs else 0.0


def instruction_mix(counters) -> dict[str, float]:
    """Pipe -> warp instructions of PTX, over the grid. What ptxas removes (moves, parameters) is not counted."""
    mix = dict.fromkeys(costs.PIPES, 0.0)
    for code, (runs, *_) in zip(counters.code.blocks, counters.runs, strict=True):
        for op, *_ in code:
            pipe, slots, _ = costs.cost(tuple(op.split(".")))
            if slots:
                mix[costs.PIPES[pipe]] += float(runs) * counters.scale
    return mix


def branches(counters) -> tuple[float, float]:
    """(conditional branches that warps ran, those of them that sent their lanes both ways), over the grid."""
    total = split = 0.0
    for succs, (runs, _, parted) in zip(counters.code.succs, counters.runs, strict=True):
        if len(set(succs)) == 2:
            total, split = total + float(runs), split + float(parted)
    return total * counters.scale, split * counters.scale


def count_ops(counters, *prefixes: str) -> float:
    """Warp instructions whose opcode starts so, over the grid."""
    total = 0.0
    for code, (runs, *_) in zip(counters.code.blocks, counters.runs, strict=True):
        total += float(runs) * sum(op.startswith(prefixes) for op, *_ in code)
    return total * counters.scale


def flops(counters) -> float:
    """Floating-point operations of FP32 and FP64: an FMA counts two; lanes that are masked off do not count."""
    total = 0.0
    for code, (_, lanes, _) in zip(counters.code.blocks, counters.runs, strict=True):
        for op, *_ in code:
            parts = op.split(".")
            if parts[-1] in ("f32", "f64") and parts[0] in ("fma", "add", "sub", "mul", "mad"):
                total += float(lanes) * (2 if parts[0] in ("fma", "mad") else 1)
    return total * counters.scale
