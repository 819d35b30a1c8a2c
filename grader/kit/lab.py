"""The laboratory of the lessons: take a time, count memory requests, draw.

    t = lab.microseconds(lambda: saxpy[grid, block](a, x, y))     # a time, by CUDA events
    c = lab.count(lambda: saxpy[grid, block](a, x, y))            # sectors, requests, bank conflicts

A time is measured on a GPU and modelled on the virtual one: `lab.how()` says which. Only the virtual GPU counts; on a
real one every count is NaN, and Nsight Compute has the figure under the name given with each property.
"""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise

NAN = math.nan


def how() -> str:
    """ "modelled" or "measured": how `microseconds` gets its times here."""
    from grader import vgpu

    return "modelled" if vgpu.active() else "measured"


def microseconds(work: Callable[[], object], repeat: int = 5) -> float:
    """Time between two events around `work`, which must use the default stream; the median of `repeat` runs.

    One run before compiles and warms up. On the virtual GPU every run takes the same time, so one is enough.
    """
    from numba import cuda

    work()
    cuda.synchronize()
    times = []
    for _ in range(1 if how() == "modelled" else repeat):
        start, end = cuda.event(), cuda.event()
        start.record()
        work()
        end.record()
        end.synchronize()
        times.append(1e3 * cuda.event_elapsed_time(start, end))
    return sorted(times)[len(times) // 2]


@dataclass
class Counts:
    """Requests of warps to memory, over one or several launches."""

    load_requests: float = 0  # smsp__inst_executed_op_global_ld: one a warp's load instruction
    load_sectors: float = 0  # l1tex__t_sectors_pipe_lsu_mem_global_op_ld: of 32 bytes
    store_requests: float = 0
    store_sectors: float = 0
    shared_requests: float = 0
    shared_wavefronts: float = 0  # l1tex__data_pipe_lsu_wavefronts_mem_shared: passes through the banks
    bytes_asked: float = 0  # that the threads' global loads and stores name
    instructions: float = 0  # smsp__inst_executed: of warps

    @property
    def sectors_per_load(self) -> float:
        """Nsight Compute: "L1/TEX sectors/request", global loads. 4 is the least for 32 neighbouring float32."""
        return self.load_sectors / self.load_requests if self.load_requests else NAN

    @property
    def sectors_per_store(self) -> float:
        """The same for stores."""
        return self.store_sectors / self.store_requests if self.store_requests else NAN

    @property
    def ways(self) -> float:
        """Wavefronts per request to shared memory: 1 is free of bank conflicts, 32 the worst."""
        return self.shared_wavefronts / self.shared_requests if self.shared_requests else NAN

    @property
    def bytes_moved(self) -> float:
        """Bytes of the sectors that loads and stores touched."""
        return 32 * (self.load_sectors + self.store_sectors)

    @property
    def efficiency(self) -> float:
        """Share of the moved bytes that a thread asked for."""
        return self.bytes_asked / self.bytes_moved if self.bytes_moved else NAN


def count(work: Callable[[], object]) -> Counts:
    """What the launches that `work` makes ask of memory; NaN in every field on a real GPU."""
    from numba import cuda

    from grader import vgpu

    if not vgpu.active():
        work()
        cuda.synchronize()
        return Counts(*(NAN,) * 8)
    from grader.vgpu.driver.state import driver

    cuda.synchronize()  # launches before this one are none of ours
    total, options = Counts(), vgpu.options()
    before, options.profile = options.profile, True

    def saw(kernel, work, result, span) -> None:
        _add(total, result.counters)

    vgpu.on_launch(saw)
    try:
        work()
        cuda.synchronize()
    finally:
        driver.observers.remove(saw)
        options.profile = before
    return total


def _add(total: Counts, counters) -> None:
    from grader.vgpu.jit import layout

    scale = counters.scale
    total.instructions += counters.instructions
    for site, row in zip(counters.code.sites, counters.sites, strict=False):
        requests, _, sectors, wavefronts, _, nbytes = (float(v) * scale for v in row[:6])
        if wavefronts:
            total.shared_requests += requests
            total.shared_wavefronts += wavefronts
        elif sectors and site.space in (layout.SPACE_GLOBAL, layout.SPACE_GENERIC):
            if site.kind in (layout.LOAD, layout.ASYNC_READ):
                total.load_requests += requests
                total.load_sectors += sectors
            else:
                total.store_requests += requests
                total.store_sectors += sectors
            total.bytes_asked += nbytes


# --- pictures -------------------------------------------------------------------------------------------------------

# Colours whose lightness differs, so that they stay apart in grey; told apart by hatching and markers as well.
INK = ("#12355b", "#d1603d", "#4fa3a5", "#e3b23c", "#8d6a9f", "#a8b0b8")
MARKER = ("o", "s", "^", "D", "v", "P")
WIDTH = 7.6  # inches: a notebook's column


def figure(height: float = 2.8, columns: int = 1, **options):
    """(figure, axes) as wide as a notebook's column."""
    import matplotlib.pyplot as plt

    style()
    return plt.subplots(1, columns, figsize=(WIDTH, height), layout="constrained", **options)


def style() -> None:
    """The look of all pictures."""
    import matplotlib as mpl
    from cycler import cycler

    mpl.rcParams.update({
        "figure.dpi": 110, "font.size": 10, "axes.titlesize": 10.5, "axes.titlelocation": "left",
        "axes.titleweight": "bold", "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
        "axes.axisbelow": True, "grid.color": "#e4e6e9", "grid.linewidth": 0.8, "axes.edgecolor": "#70757d",
        "xtick.color": "#3c4046", "ytick.color": "#3c4046", "legend.frameon": False, "lines.linewidth": 2.0,
        "lines.markersize": 6, "hatch.linewidth": 0.6,
        "axes.prop_cycle": cycler(color=INK) + cycler(marker=MARKER),
    })  # fmt: skip


def bars(values: dict[str, float], unit: str, title: str = "", form: str = "", best: float | None = None) -> None:
    """Horizontal bars with their figures; `best` draws a line at the least that is possible."""
    import matplotlib.pyplot as plt

    _, ax = figure(height=0.62 + 0.36 * len(values))
    names = list(values)
    drawn = ax.barh(names, [values[n] for n in names], color=INK[0], height=0.62)
    labels = [form.format(values[n]) if form else _figure(values[n]) for n in names]
    ground = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}  # of a figure that the dashed line would cross
    ax.bar_label(drawn, labels, padding=4, bbox=ground, zorder=3)
    if best is not None:
        ax.axvline(best, color=INK[1], linewidth=1.6, linestyle="--", zorder=2.5)
    ax.invert_yaxis()
    ax.margins(x=0.12)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel(unit)
    ax.set_title(title)
    plt.show()


def curves(
    x: Sequence[float], ys: dict[str, Sequence[float]], xlabel: str, ylabel: str, title: str = "", log: bool = False
) -> None:
    """Lines over a shared axis of powers of two; `log`: powers of ten upwards."""
    import matplotlib.pyplot as plt

    _, ax = figure()
    for name, y in ys.items():
        ax.plot(x, y, label=name)
    ax.set_xscale("log", base=2)
    ax.set_xticks(x, [_short(v) for v in x])
    ax.minorticks_off()
    if log:
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter(lambda v, _: f"{v:g}")
        ax.yaxis.set_minor_formatter(lambda v, _: f"{v:g}" if f"{v:e}"[0] in "25" else "")
    else:
        ax.set_ylim(bottom=0)
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    ax.set_title(title)
    if len(ys) > 1:
        ax.legend()
    plt.show()


def _figure(v: float) -> str:
    """Three digits that count, and no powers of ten: 0.123, 12.3, 1,230."""
    return f"{v:,.0f}" if abs(v) >= 1000 else f"{v:.3g}"


def _short(n: float) -> str:
    """1024 as "1 Ki"."""
    for unit, size in (("Mi", 1 << 20), ("Ki", 1 << 10)):
        if n >= size and n % size == 0:
            return f"{n // size} {unit}"
    return f"{n:g}"


ENGINES = {  # what occupies a device: name in the picture, colour, hatching
    "h2d": ("copy to device", INK[3], "//"),
    "compute": ("kernels", INK[0], ""),
    "d2h": ("copy to host", INK[2], "\\\\"),
    "p2p": ("copy to peer", INK[4], "xx"),
    "host": ("host function", INK[5], ".."),
    "faults": ("page faults", INK[1], "xx"),
    "host faults": ("page faults of the host", INK[1], "--"),
}


UNSEEN = 0.003  # of a picture's width: an overlap that is no wider would be invisible


class Timeline:
    """What the device did inside a `with` block."""

    def __init__(self):
        self.spans: list = []
        self.measured_us = NAN  # on a GPU: by the host's clock, the device being idle at both ends
        self.paged: dict[str, int] = {}  # what managed memory did: grader.vgpu.driver.paging.Totals, by name

    @property
    def fault_groups(self) -> float:
        """Page faults of kernels, those that are served together counted as one. Nsight Systems: "UM GPU page faults"."""
        return self.paged.get("fault_groups", NAN)

    @property
    def host_fault_groups(self) -> float:
        """The same of the host. Nsight Systems: "UM CPU page faults"."""
        return self.paged.get("host_fault_groups", NAN)

    @property
    def bytes_to_device(self) -> float:
        """Of managed memory, on demand or prefetched."""
        return self.paged.get("to_device", NAN)

    @property
    def bytes_to_host(self) -> float:
        """Of managed memory, on demand, prefetched, or evicted to make room."""
        return self.paged.get("to_host", NAN)

    @property
    def microseconds(self) -> float:
        """From the start of the first piece of work to the end of the last; on a GPU, of the whole block."""
        if not self.spans:
            return self.measured_us
        return max(s.end_us for s in self.spans) - min(s.start_us for s in self.spans)

    @property
    def overlap(self) -> float:
        """Microseconds during which more than one engine was busy."""
        edges = sorted({t for s in self.spans for t in (s.start_us, s.end_us)})
        busy = 0.0
        for a, b in pairwise(edges):
            engines = {s.engine for s in self.spans if s.start_us < b and s.end_us > a} - {"faults", "host faults"}
            busy += (b - a) * (len(engines) > 1)
        return busy

    def draw(self, title: str = "", rows: str = "engine") -> None:
        """One row an engine (or "stream", lettered in the order of their making), one box a piece of work.

        What ran at the same time in one row lies one above the other.
        """
        import matplotlib.pyplot as plt

        if not self.spans:
            if how() == "modelled":
                print("Nothing to draw: the device had nothing to do.")
            else:
                print("No timeline here: on a GPU, `nsys profile` records it and Nsight Systems draws it.")
            return
        start = min(s.start_us for s in self.spans)
        if rows == "engine":
            names = [e for e in ENGINES if any(s.engine == e for s in self.spans)]
            labels = [ENGINES[e][0] for e in names]
        else:
            names = sorted({s.stream for s in self.spans})
            letters = iter("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
            labels = [f"stream {next(letters)}" if n else "default stream" for n in names]
        length = max(s.end_us for s in self.spans) - start
        lanes = [_lanes([s for s in self.spans if getattr(s, rows) == name], length * UNSEEN) for name in names]
        _, ax = figure(height=0.95 + 0.36 * len(names) + 0.2 * sum(len(row) - 1 for row in lanes))
        for y, row in enumerate(lanes):
            height = 0.7 / len(row)
            for lane, spans in enumerate(row):
                for s in spans:
                    _, colour, hatch = ENGINES[s.engine]
                    ax.barh(
                        y - 0.35 + height * (lane + 0.5), s.end_us - s.start_us, left=s.start_us - start,
                        height=height, color=colour, hatch=hatch, edgecolor="white", linewidth=0.8,
                    )  # fmt: skip
        ax.set_yticks(range(len(names)), labels)
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.grid(axis="y", visible=False)
        ax.set_xlabel(f"microseconds, {how()}")
        ax.set_title(title)
        if rows != "engine":
            from matplotlib.patches import Patch

            used = [ENGINES[e] for e in ENGINES if any(s.engine == e for s in self.spans)]
            keys = [Patch(facecolor=colour, hatch=hatch, edgecolor="white", label=name) for name, colour, hatch in used]
            ax.legend(
                handles=keys, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=len(used), borderpad=0.1, fontsize=9
            )
        plt.show()


def _lanes(spans: list, unseen: float = 1e-9) -> list[list]:
    """The spans shared out so that no two in one lane overlap by more than `unseen` us: each to the first lane that is free."""
    lanes: list[list] = []
    for span in sorted(spans, key=lambda s: (s.start_us, s.end_us)):
        free = next((lane for lane in lanes if lane[-1].end_us <= span.start_us + unseen), None)
        if free is None:
            lanes.append([span])
        else:
            free.append(span)
    return lanes


@contextmanager
def timeline():
    """Record what the device does in a `with` block. On a real GPU only the time: Nsight Systems has the rest."""
    from numba import cuda

    from grader import vgpu

    out = Timeline()
    cuda.synchronize()
    if not vgpu.active():
        begun = time.perf_counter()
        yield out
        cuda.synchronize()
        out.measured_us = 1e6 * (time.perf_counter() - begun)
        return
    from grader.vgpu.driver import paging

    before, paged = len(vgpu.spans()), replace(paging.TOTALS)
    yield out
    cuda.synchronize()
    out.paged = paging.TOTALS.since(paged)
    out.spans = [s for s in vgpu.spans()[before:] if s.engine in ENGINES and s.end_us > s.start_us]


@contextmanager
def room(nbytes: int):
    """Leave so much memory free on the device inside a `with` block: a GPU's is allocated, the virtual one's counted."""
    from numba import cuda

    from grader import vgpu

    if vgpu.active():
        from grader.vgpu.driver.state import driver

        device = driver.devices[cuda.get_current_device().id]
        before, device.used_bytes = device.used_bytes, device.card.memory_bytes - nbytes
        try:
            yield
        finally:
            cuda.synchronize()
            device.used_bytes = before
        return
    taken = cuda.device_array(max(1, cuda.current_context().get_memory_info().free - nbytes), "u1")
    yield
    cuda.synchronize()
    del taken
