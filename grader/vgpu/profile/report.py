"""A launch's profile: plain data, and a text table."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..model import Estimate, kernel_time, timing
from . import advice
from .counters import (
    Access,
    Line,
    branches,
    by_kind,
    by_line,
    count_ops,
    flops,
    instruction_mix,
    threads_per_instruction,
)


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure."""

    section: str
    name: str  # as Nsight Compute's pages call it
    id: str  # as ncu --metrics calls it; "" where it has no such name
    value: float
    unit: str
    exact: bool  # counted, and not modelled
    meaning: str  # one line
    advice: str = ""  # one thing to try, when the figure is bad


@dataclass(frozen=True)
class Profile:
    """A launch, measured out."""

    kernel: str
    card: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    counted: float  # part of the blocks whose accesses were counted; the rest is scaled up
    time: Estimate
    metrics: list[Metric]
    lines: list[Line] = field(repr=False)

    def __getitem__(self, name: str) -> float:
        """The value of a metric, by its name or its ncu name. KeyError if there is none."""
        for metric in self.metrics:
            if name in (metric.name, metric.id):
                return metric.value
        raise KeyError(name)

    def __str__(self) -> str:
        return "\n".join(self.rows())

    def rows(self) -> Iterator[str]:
        """The text, line by line."""
        yield f"{self.kernel}  grid {_dims(self.grid)}, block {_dims(self.block)} on {self.card}"
        counted = "every block counted" if self.counted >= 1 else f"{self.counted:.1%} of the blocks counted, scaled up"
        yield f"{counted}; ~ marks what is modelled, not counted"
        section = None
        for metric in self.metrics:
            if metric.section != section:
                section = metric.section
                yield ""
                yield section
            mark = " " if metric.exact else "~"
            yield f"  {metric.name:<38}{mark}{_number(metric.value, metric.unit):>12} {metric.unit:<8} {metric.meaning}"
            if metric.advice:
                yield f"  {'':38}  -> {metric.advice}"
        yield from self._line_rows()

    def _line_rows(self) -> Iterator[str]:
        if not self.lines:
            return
        yield ""
        yield "By line of the source"
        heads = ("line", "instr.", "threads", "sect./req. ld", "st", "shared ways")
        yield _columns(heads) + "  waits for (~)"
        for row in self.lines:
            stalls = {
                k: v for k, v in self.time.lines.get(row.line, {}).items() if k not in ("selected", "not selected")
            }
            worst = max(stalls, key=stalls.get, default="")
            waits = f"{worst} {stalls[worst]:.0%}" if worst and stalls[worst] >= 0.01 else ""
            ways = [_cell(row.load.sectors_per_request), _cell(row.store.sectors_per_request), _cell(row.shared.ways)]
            yield _columns((row.line, f"{row.instructions:,.0f}", f"{row.threads:.1f}", *ways)) + f"  {waits}"


def _columns(cells) -> str:
    return "  " + " ".join(f"{cell:>{width}}" for cell, width in zip(cells, (5, 10, 8, 14, 6, 12), strict=True))


def _dims(dims) -> str:
    return "x".join(str(d) for d in dims)


def _cell(x: float) -> str:
    return f"{x:.1f}" if x else ""


def _number(value: float, unit: str) -> str:
    if unit == "%":
        return f"{value:.1f}"
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.2f}"


def profile(
    result, card, kernel, grid, block, shared: int, registers: int, mix=None, name: str | None = None
) -> Profile:
    """The profile of a launch.

    result: machine.LaunchResult, best of a launch with LaunchOptions(profile=True); card: grader.vgpu.devices.Card;
    kernel: machine.Kernel; grid, block: (x, y, z); shared: a block's bytes, static and dynamic; registers: a thread's;
    mix: as in grader.vgpu.model.kernel_time.
    """
    time = kernel_time(card, kernel, grid, block, shared, registers, result, mix)
    counters = result.counters
    metrics = [advice.advise(m) for m in _metrics(counters, card, time, registers, shared)]
    counted = counters.counted_blocks / max(1, counters.blocks)
    return Profile(name or kernel.name, card.name, tuple(grid), tuple(block), counted, time, metrics, by_line(counters))


def _metrics(counters, card, time: Estimate, registers: int, shared: int) -> Iterator[Metric]:
    kinds = by_kind(counters)
    yield from _speed(counters, card, time)
    yield from _memory(kinds, time)
    yield from _shared(kinds, counters)
    yield from _instructions(counters, time)
    yield from _occupancy(time, registers, shared)
    yield from _stalls(time)


def _speed(counters, card, time):
    section = "Speed of light"
    us = max(time.us, 1e-9)
    yield Metric(section, "Duration", "gpu__time_duration.sum", time.us, "us", False, f"bound by {time.bound_by}")
    dram = 100 * time.use.get("DRAM", 0.0)
    yield Metric(
        section,
        "DRAM throughput",
        "dram__throughput.avg.pct_of_peak_sustained_elapsed",
        dram,
        "%",
        False,
        "of the bandwidth that device memory reaches",
    )
    compute = 100 * max((time.use.get(k, 0.0) for k in ("issue", "FMA", "ALU", "FP64", "XU")), default=0.0)
    yield Metric(
        section,
        "Compute throughput",
        "sm__throughput.avg.pct_of_peak_sustained_elapsed",
        compute,
        "%",
        False,
        "of the busiest arithmetic pipe or of issue",
    )
    work = flops(counters)
    if work:
        peak = 2e-3 * card.sms * card.fp32_lanes * card.clock_mhz
        yield Metric(section, "FP rate", "", work / us / 1e3, "GFLOP/s", False, f"of {peak:,.0f} in FP32")
        moved = time.dram_read + time.dram_write
        if moved:
            ridge = peak / timing(card.key).dram_gbs
            side = "left of" if work / moved < ridge else "right of"
            yield Metric(
                section,
                "Arithmetic intensity",
                "",
                work / moved,
                "FLOP/B",
                False,
                f"{side} the roofline's ridge at {ridge:.1f}",
            )


def _memory(kinds: dict[str, Access], time):
    section = "Memory"
    for kind, op in (("load", "ld"), ("store", "st"), ("atomic", "atom")):
        access = kinds.get(kind)
        if access is None:
            continue
        name = f"l1tex__t_sectors_pipe_lsu_mem_global_op_{op}"
        yield Metric(
            section,
            f"Global {kind} sectors",
            f"{name}.sum",
            access.sectors,
            "",
            True,
            "32-byte pieces of memory asked for",
        )
        yield Metric(
            section,
            f"Sectors/request, global {kind}",
            f"{name}_per_request.ratio",
            access.sectors_per_request,
            "",
            True,
            f"{access.ideal / access.requests:.1f} would carry the bytes used",
        )
        yield Metric(
            section, f"Excessive sectors, global {kind}", "", access.excessive, "", True, "sectors beyond those needed"
        )
    if copy := kinds.get("copy"):
        yield Metric(
            section,
            "Async copy bytes (LDGSTS)",
            "",
            copy.bytes,
            "B",
            True,
            "copied by cp.async from global to shared memory",
        )
    if copy := kinds.get("bulk copy"):
        text = "copied by cp.async.bulk, past the L1"
        yield Metric(section, "Bulk copy bytes (TMA)", "", copy.bytes, "B", True, text)
    if local := kinds.get("local"):
        yield Metric(
            section,
            "Local memory sectors",
            "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",
            local.sectors,
            "",
            True,
            "arrays and spills of single threads",
        )
    yield Metric(
        section,
        "L1 hit rate",
        "l1tex__t_sector_hit_rate.pct",
        100 * time.l1_hit,
        "%",
        False,
        "of the sectors asked for",
    )
    yield Metric(
        section,
        "L2 hit rate",
        "lts__t_sector_hit_rate.pct",
        100 * time.l2_hit,
        "%",
        False,
        "of the sectors that L1 passed on",
    )
    yield Metric(section, "L2 bytes", "lts__t_bytes.sum", time.l2_bytes, "B", False, "between the SMs and L2")
    yield Metric(section, "DRAM bytes read", "dram__bytes_read.sum", time.dram_read, "B", False, "with a cold L2")
    yield Metric(
        section, "DRAM bytes written", "dram__bytes_write.sum", time.dram_write, "B", False, "what L2 cannot keep"
    )


def _shared(kinds: dict[str, Access], counters):
    section = "Shared memory"
    for kind, op in (("shared load", "ld"), ("shared store", "st"), ("shared atomic", "atom")):
        access = kinds.get(kind)
        if access is None:
            continue
        name = f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum"
        label = kind.capitalize()
        yield Metric(
            section, f"{label} wavefronts", name, access.wavefronts, "", True, f"passes; {access.ideal:,.0f} are needed"
        )
        yield Metric(
            section,
            f"Bank conflicts, {kind}",
            f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum",
            max(0.0, access.wavefronts - access.ideal),
            "",
            True,
            "passes beyond those needed",
        )
        yield Metric(
            section, f"Ways, {kind}", "", access.ways, "", True, "passes an access takes for each one it needs"
        )
    groups = count_ops(counters, "cp.async.commit_group")
    if groups:
        yield Metric(section, "cp.async groups", "", groups, "", True, "commits, one a warp")
        yield Metric(section, "cp.async waits", "", count_ops(counters, "cp.async.wait"), "", True, "one a warp")


def _instructions(counters, time):
    section = "Instructions"
    yield Metric(
        section,
        "PTX instructions",
        "smsp__inst_executed.sum",
        counters.instructions,
        "",
        True,
        "of warps; the machine code's differ",
    )
    threads = threads_per_instruction(counters)
    yield Metric(
        section,
        "Threads/instruction",
        "smsp__thread_inst_executed_per_inst_executed.ratio",
        threads,
        "",
        True,
        "active lanes; 32 without divergence",
    )
    yield Metric(section, "Warp execution efficiency", "", 100 * threads / 32, "%", True, "of lanes that do something")
    every, split = branches(counters)
    if every:
        uniform = "smsp__sass_average_branch_targets_threads_uniform.pct"
        text = "of the branches with a condition, those that all lanes of a warp decide alike"
        yield Metric(section, "Branch efficiency", uniform, 100 * (1 - split / every), "%", True, text)
        text = "that parted a warp; ptxas may make short ones into predicates"
        yield Metric(section, "Divergent branches", "", split, "", True, text)
    mix = instruction_mix(counters)
    total = sum(mix.values()) or 1.0
    for pipe, n in mix.items():
        if n:
            yield Metric(section, f"Mix: {pipe}", "", 100 * n / total, "%", True, "of the warp instructions")
    yield Metric(
        section,
        "IPC",
        "sm__inst_executed.avg.per_cycle_elapsed",
        time.ipc,
        "",
        False,
        "warp instructions an SM issues a cycle, at most 4",
    )


def _occupancy(time, registers: int, shared: int):
    section = "Occupancy"
    fits = time.occupancy
    yield Metric(
        section, "Registers per thread", "launch__registers_per_thread", registers, "", True, "from the machine code"
    )
    yield Metric(
        section, "Shared memory per block", "launch__shared_mem_per_block", shared, "B", True, "static and dynamic"
    )
    limit = " and ".join(fits.limited_by)
    yield Metric(
        section,
        "Theoretical occupancy",
        "sm__maximum_warps_per_active_cycle_pct",
        100 * fits.ratio,
        "%",
        True,
        f"{fits.blocks} blocks an SM, limited by {limit}",
    )
    yield Metric(
        section,
        "Achieved occupancy",
        "sm__warps_active.avg.pct_of_peak_sustained_active",
        100 * time.achieved,
        "%",
        False,
        "warps that are on an SM, on average",
    )


def _stalls(time):
    for name, part in sorted(time.stalls.items(), key=lambda item: -item[1]):
        if part >= 0.005:
            yield Metric(
                "Warp states",
                name,
                f"smsp__pcsamp_warps_issue_stalled_{name.replace(' ', '_')}",
                100 * part,
                "%",
                False,
                advice.STALLS.get(name, ""),
            )
