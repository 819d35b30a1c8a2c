"""Inside a kernel: what each warp of one block did when: who loads, who computes, who waits, and for what.

with watch() as blocks:             # every launch within; or %%warps above a notebook cell
    kernel[grid, block](...)
blocks[0].figure()
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from grader.vgpu.model import program, sm
from grader.vgpu.model.estimate import issue_times

COMPUTE, GLOBAL, SHARED = "computes", "loads and stores, global", "loads and stores, shared"
BARRIER = "waits at a barrier"
MEMORY, OTHER, BUSY = "waits for memory", "waits for a result", "ready, another warp or a pipe is busy"
_LOOKS = {
    COMPUTE: ("#1f4e79", ""),
    GLOBAL: ("#f2b134", "////"),
    SHARED: ("#4f9d69", "\\\\\\\\"),
    MEMORY: ("#f7e3b5", "...."),
    BARRIER: ("#b9a3c9", "xxxx"),
    OTHER: ("#dfe7ef", ""),
    BUSY: ("#ffffff", ""),
}
_GLOBAL = {program.LOAD, program.STORE, program.ATOMIC, program.COPY, program.COMMIT}
_SHARED = {program.SHARED_LOAD, program.SHARED_STORE, program.SHARED_ATOMIC, program.SHUFFLE}
JOIN = 24.0  # cycles: shorter waits between instructions of one kind are not shown


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a warp's time, in cycles."""

    warp: int
    start: float
    end: float
    what: str
    line: int  # the student's


@dataclass(frozen=True)
class BlockTimeline:
    """The warps of the first block on an SM, while the SM's other blocks run beside it."""

    kernel: str
    warps: int
    segments: list[Segment] = field(repr=False)

    def share(self, what: str) -> float:
        """Part of the warps' time that went into `what`, 0 to 1."""
        total = sum(s.end - s.start for s in self.segments)
        return sum(s.end - s.start for s in self.segments if s.what == what) / total if total else 0.0

    def figure(self, width: float = 9.5, most: int = 16, cycles: float | None = None):
        """A matplotlib Figure with a row for each warp, at most `most` of them; `cycles`: where it ends."""
        from matplotlib.figure import Figure
        from matplotlib.patches import Patch

        shown = min(self.warps, most)
        figure = Figure(figsize=(width, 1.0 + 0.26 * shown), layout="constrained")
        axes = figure.add_subplot()
        for what, (fill, hatch) in _LOOKS.items():
            own = [s for s in self.segments if s.what == what and s.warp < shown]
            waits = what in (MEMORY, BARRIER, OTHER, BUSY)
            axes.barh(
                [s.warp for s in own], [s.end - s.start for s in own], left=[s.start for s in own],
                height=0.36 if waits else 0.84, color=fill, hatch=hatch, edgecolor="#555555", linewidth=0.2,
            )  # fmt: skip
        axes.set_ylim(shown - 0.5, -0.5)
        axes.set_yticks(range(shown), [f"warp {k}" for k in range(shown)], fontsize=7.5)
        axes.set_xlabel("cycles (modelled)", fontsize=8)
        axes.tick_params(axis="x", labelsize=8)
        axes.set_xlim(0, cycles or max((s.end for s in self.segments), default=1.0))
        axes.set_title(f"{self.kernel}: one block; {self.summary()}", fontsize=8.5, loc="left")
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        used = {s.what for s in self.segments}
        handles = [
            Patch(facecolor=fill, hatch=hatch, edgecolor="#555555", linewidth=0.4, label=what)
            for what, (fill, hatch) in _LOOKS.items()
            if what in used
        ]
        figure.legend(handles=handles, loc="outside lower left", ncols=4, fontsize=7.5, frameon=False)
        return figure

    def summary(self) -> str:
        """How the warps' time divides, in a sentence."""
        parts = sorted(((self.share(what), what) for what in _LOOKS), reverse=True)
        return ", ".join(f"{part:.0%} {what.split(',')[0]}" for part, what in parts[:3] if part >= 0.01)

    def _repr_png_(self) -> bytes:
        import io

        buffer = io.BytesIO()
        self.figure().savefig(buffer, format="png", dpi=110)
        return buffer.getvalue()


def block_timeline(card, kernel, grid, block, shared: int, registers: int, result, mix=None, name="") -> BlockTimeline:
    """The timeline of a launch's first block; arguments as for `grader.vgpu.model.kernel_time`."""
    code, rows = issue_times(card, kernel, grid, block, shared, registers, result, mix)
    nwarps = -(-block[0] * block[1] * block[2] // 32)
    segments: list[Segment] = []
    rows = rows[rows.order == 0]  # of the first block, and not of the next in its place
    for warp in range(nwarps):
        segments += _segments(code, rows[rows.warp == warp], warp)
    return BlockTimeline(name or kernel.name, nwarps, segments)


def _segments(code, rows: np.recarray, warp: int) -> list[Segment]:
    """rows: the warp's issues, sm.SAMPLE."""
    out: list[Segment] = []
    end, after = float(rows.start[0]) if len(rows) else 0.0, program.PLAIN
    columns = (rows.start, rows.instruction, rows.end, rows.why, rows.waited)
    for issued, i, done, reason, waited in zip(*(column.tolist() for column in columns), strict=True):
        line = int(code.lines[i])
        if issued - end > JOIN:
            what = BARRIER if after == program.BARRIER else _waiting(reason) if waited > JOIN / 2 else BUSY
            out.append(Segment(warp, end, float(issued), what, line))
        kind = int(code.kind[i])
        what = GLOBAL if kind in _GLOBAL else SHARED if kind in _SHARED else COMPUTE
        last = out[-1] if out else None
        if last and last.what == what and issued - last.end <= JOIN:
            out[-1] = Segment(warp, last.start, float(done), what, last.line)
        else:
            start = last.end if last else float(issued)
            out.append(Segment(warp, min(start, float(issued)), float(done), what, line))
        end, after = float(done), kind
    return out


def _waiting(reason: int) -> str:
    return MEMORY if reason == sm.LONG else BARRIER if reason == sm.BAR else OTHER


@contextmanager
def watch() -> Iterator[list[BlockTimeline]]:
    """Collect a BlockTimeline of every launch within."""
    from grader import vgpu
    from grader.vgpu.driver.state import driver
    from grader.vgpu.names import short_name

    found: list[BlockTimeline] = []

    def add(kernel, work, result, span):
        shared = work.kernel.static_shared + work.shared
        registers, mix = work.kernel.facts.registers, work.kernel.mix
        card = vgpu.active()[span.device]
        name = short_name(work.kernel.name)
        found.append(block_timeline(card, kernel, work.grid, work.block, shared, registers, result, mix, name))

    vgpu.finish()
    driver.observers.append(add)
    try:
        yield found
        vgpu.finish()
    finally:
        driver.observers.remove(add)
