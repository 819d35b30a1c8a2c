"""Timelines: what the host, each stream, each engine did when; as a picture, as a trace file, and in figures.

timeline = Timeline.now()           # all that has been executed so far
timeline.figure()                   # rows as in Nsight Systems
timeline.save("out.json")           # for ui.perfetto.dev or chrome://tracing
timeline.overlap, timeline.idle     # measures
"""

import json
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from grader.vgpu.driver.clock import HOST_FAULTS, Span
from grader.vgpu.names import short_name
from grader.vgpu.targets import PICTURES, target

TITLE_CHARACTERS = 14  # of a title, in an inch of the picture
COPIES = {"h2d", "d2h", "p2p", "prefetch"}
_WORDS = {
    "kernel": "kernel",
    "h2d": "copy to device",
    "d2h": "copy to host",
    "d2d": "copy on the device",
    "p2p": "copy between devices",
    "set": "memset",
    "prefetch": "prefetch",
    "fault": "page faults",
    "host": "host function",
    "call": "driver call",
    "graph": "graph",
    "whole": "all of it",
}
# Fill, hatch, text: kinds differ in lightness and in hatching, so that they can be told apart in grey.
_LOOKS = {
    "kernel": ("#1f4e79", "", "white"),
    "h2d": ("#f2b134", "////", "black"),
    "d2h": ("#a8d5a2", "\\\\\\\\", "black"),
    "p2p": ("#d9a5d3", "xxxx", "black"),
    "d2d": ("#c7d3e3", "....", "black"),
    "set": ("#e4e4e4", "....", "black"),
    "prefetch": ("#fbe3b0", "||||", "black"),
    "fault": ("#b3261e", "xx", "white"),
    "host": ("#8c8c8c", "", "white"),
    "call": ("#bdbdbd", "", "black"),
    "graph": ("#ffffff", "", "black"),
    "whole": ("#dfe7ef", "", "black"),
}


@dataclass(frozen=True)
class Row:
    """One line of a timeline."""

    group: str  # "host", or a device
    label: str
    spans: list[Span] = field(repr=False)


@dataclass(frozen=True)
class Timeline:
    """Spans of work, in microseconds."""

    spans: list[Span] = field(repr=False)
    calls: list[Span] = field(repr=False, default_factory=list)
    how: str = "modelled"  # or "measured"

    @classmethod
    def now(cls, since_spans: int = 0, since_calls: int = 0) -> "Timeline":
        """Everything that has been executed so far, less the first so many spans and calls."""
        from grader import vgpu

        return cls(vgpu.spans()[since_spans:], vgpu.calls()[since_calls:])

    @property
    def start(self) -> float:
        """When the first thing starts, a call of the host's or work."""
        return min((s.start_us for s in [*self.spans, *self.calls]), default=0.0)

    @property
    def end(self) -> float:
        """When the last thing ends, a call of the host's or work."""
        return max((s.end_us for s in [*self.spans, *self.calls]), default=0.0)

    # ------------------------------------------------------------------ measures
    # Of these only `length` knows the host: its calls before the device's first work and after its last are in it, and in no
    # other measure. Kernels, copies and faults that run at once count once.
    @property
    def length(self) -> float:
        """us from `start` to `end`: from the first call or piece of work, on the host or a device, to the end of the last."""
        return self.end - self.start

    @property
    def overlap(self) -> float:
        """Part of the copies' time during which a kernel ran as well, 0 to 1; 0 without copies."""
        copies, kernels = self._during(*COPIES), self._during("kernel")
        total = _length(copies)
        return _length(_intersection(copies, kernels)) / total if total else 0.0

    @property
    def idle(self) -> float:
        """us during which no device did anything, from the start of the first piece of work on a device to the end of the
        last; what comes before and after is no idle time, since there is nothing that it lies between.
        """
        busy = _union(s for s in self.spans if _on_device(s))
        return busy[-1][1] - busy[0][0] - _length(busy) if busy else 0.0

    @property
    def lead(self) -> float:
        """us before the first piece of work on a device: the host allocates, makes streams, computes."""
        starts = [s.start_us for s in self.spans if _on_device(s)]
        return min(starts) - self.start if starts else 0.0

    @property
    def gaps(self) -> list[tuple[float, float]]:
        """The stretches of idle time, (start, end) in us, longest first; they add up to `idle`."""
        busy = _union(s for s in self.spans if _on_device(s))
        holes = [(a[1], b[0]) for a, b in pairwise(busy)]
        return sorted(holes, key=lambda hole: hole[0] - hole[1])

    @property
    def faults(self) -> float:
        """us that went into page faults of managed memory."""
        return _length(self._during("fault"))

    @property
    def kernels(self) -> float:
        """us during which a kernel ran."""
        return _length(self._during("kernel"))

    @property
    def copies(self) -> float:
        """us during which something was copied."""
        return _length(self._during(*COPIES))

    def _during(self, *kinds: str) -> list[tuple[float, float]]:
        """When something of these kinds was going on."""
        return _union(s for s in self.spans if s.kind in kinds)

    def summary(self) -> str:
        """The measures in a sentence."""
        text = f"{_time(self.length)} in all"
        if any(s.kind == "whole" for s in self.spans):
            return text + f" ({self.how})"
        if self.lead > self.length / 2:
            text += f", the first {_time(self.lead)} of it before the device had work"
        text += f"; kernels {_time(self.kernels)}"
        if self.copies:
            text += f", copies {_time(self.copies)}, of which {self.overlap:.0%} while a kernel ran"
        text += f"; the device idle {_time(self.idle)} between work"
        if self.faults:
            text += f"; page faults {_time(self.faults)}"
        return text + f" ({self.how})"

    # ------------------------------------------------------------------ rows
    def rows(self) -> list[Row]:
        """Host calls; then for each device its graphs, streams, engines and page faults."""
        rows = [Row("host", "driver calls", self.calls)] if self.calls else []
        for label, own in (
            ("host functions", [s for s in self.spans if s.kind == "host"]),
            ("page faults", [s for s in self.spans if s.engine == HOST_FAULTS]),
        ):
            if own:
                rows.append(Row("host", label, own))
        busy = [s for s in self.spans if _on_device(s)]
        for device in sorted({s.device for s in busy}):
            own = [s for s in busy if s.device == device]
            rows += _device_rows(f"GPU {device}", own)
        return rows

    # ------------------------------------------------------------------ trace file
    def trace(self) -> dict:
        """The trace in Chrome's JSON format, which Perfetto reads."""
        events, groups = [], {}
        for tid, row in enumerate(self.rows(), 1):
            pid = groups.setdefault(row.group, len(groups) + 1)
            events.append({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": row.label}})
            events.append({"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": {"sort_index": tid}})
            events += [_event(span, pid, tid) for span in row.spans]
        for name, pid in groups.items():
            events.append({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}})
        return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": {"times": self.how}}

    def save(self, path: str | Path) -> None:
        """Write a picture (.png, .svg, .pdf) or the trace (.json). ValueError for another name, see `targets`."""
        path = target(path)
        if path.suffix.lower() in PICTURES:
            self.figure().savefig(path, dpi=150, bbox_inches="tight")
        else:
            path.write_text(json.dumps(self.trace()))

    # ------------------------------------------------------------------ picture
    def figure(self, width: float = 9.5):
        """A matplotlib Figure, `width` inches wide."""
        from matplotlib.figure import Figure

        rows = self.rows()
        figure = Figure(figsize=(width, 0.9 + 0.34 * max(1, len(rows))), layout="constrained")
        axes = figure.add_subplot()
        start, end = self.start, max(self.end, self.start + 1e-3)
        unit, scale = ("ms", 1e-3) if end - start >= 2000 else ("us", 1.0)
        for y, row in enumerate(rows):
            _draw_row(axes, row, y, start, scale, (end - start) * scale / width)
        _frame(axes, rows, (end - start) * scale, f"{unit} ({self.how})")
        axes.set_title(textwrap.fill(self.summary(), int(width * TITLE_CHARACTERS)), fontsize=8.5, loc="left")
        return figure

    def _repr_png_(self) -> bytes:
        import io

        buffer = io.BytesIO()
        self.figure().savefig(buffer, format="png", dpi=110)
        return buffer.getvalue()

    def __repr__(self) -> str:
        return f"<Timeline: {self.summary()}>"


def _on_device(span: Span) -> bool:
    return span.kind not in ("host", "event") and span.engine != HOST_FAULTS


def _device_rows(group: str, spans: list[Span]) -> list[Row]:
    rows = []
    for number in sorted({s.graph for s in spans if s.graph is not None}):
        rows.append(Row(group, f"graph {number}", _launches(spans, number)))
    for stream in sorted({s.stream for s in spans}):
        label = f"stream {stream}" if stream else "default stream"
        rows.append(Row(group, label, [s for s in spans if s.stream == stream and s.kind != "fault"]))
    for engine, label in (("h2d", "copy engine H2D"), ("d2h", "copy engine D2H"), ("p2p", "peer copies")):
        own = [s for s in spans if s.engine == engine and s.kind != "fault"]
        if own:
            rows.append(Row(group, label, own))
    faults = [s for s in spans if s.kind == "fault"]
    if faults:
        rows.append(Row(group, "page faults", faults))
    return [row for row in rows if row.spans]


def _launches(spans: list[Span], number: int) -> list[Span]:
    """One span for each launch of a graph, from its first node's start to its last one's end."""
    out: dict[int | None, Span] = {}
    for s in spans:
        if s.graph == number:
            known = out.get(s.launch, s)
            start, end = min(known.start_us, s.start_us), max(known.end_us, s.end_us)
            name = f"graph {number}"
            out[s.launch] = Span(name, "graph", s.device, s.stream, "", start, end, graph=number, launch=s.launch)
    return list(out.values())


def _draw_row(axes, row: Row, y: int, start: float, scale: float, per_inch: float) -> None:
    for span in row.spans:
        fill, hatch, ink = _LOOKS.get(span.kind, _LOOKS["call"])
        x, w = (span.start_us - start) * scale, (span.end_us - span.start_us) * scale
        shown = max(w, per_inch * 0.008)  # what is too short to see is drawn as a hairline
        axes.barh(
            y, shown, left=x, height=0.72, color=fill, hatch=hatch, edgecolor="#333333", linewidth=0.4, align="center"
        )
        text = _label(span)
        if len(text) * 0.066 + 0.06 < w / per_inch:
            style = {"facecolor": fill, "edgecolor": "none", "pad": 0.6} if hatch else None
            axes.text(x + w / 2, y, text, ha="center", va="center", fontsize=7, color=ink, bbox=style, clip_on=True)


def _frame(axes, rows: list[Row], length: float, unit: str) -> None:
    axes.set_ylim(len(rows) - 0.5 if rows else 0.5, -0.5)
    axes.set_xlim(0, length * 1.01)
    axes.set_yticks(range(len(rows)), [row.label for row in rows], fontsize=8)
    axes.tick_params(axis="x", labelsize=8)
    axes.set_xlabel(f"time, {unit}", fontsize=8)
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    for y in range(1, len(rows)):
        if rows[y].group != rows[y - 1].group:
            axes.axhline(y - 0.5, color="#333333", linewidth=0.9)
    groups = {row.group: k for k, row in reversed(list(enumerate(rows)))}
    for name, y in groups.items():
        axes.annotate(
            name,
            (1.004, y),
            xycoords=("axes fraction", "data"),
            fontsize=8,
            va="center",
            ha="left",
            annotation_clip=False,
        )
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    _legend(axes, rows)


def _legend(axes, rows: list[Row]) -> None:
    from matplotlib.patches import Patch

    kinds = {span.kind for row in rows for span in row.spans}
    handles = [
        Patch(facecolor=fill, hatch=hatch, edgecolor="#333333", linewidth=0.4, label=_WORDS[kind])
        for kind, (fill, hatch, _) in _LOOKS.items()
        if kind in kinds
    ]
    axes.figure.legend(
        handles=handles, loc="outside lower left", ncols=6, fontsize=7.5, frameon=False, handleheight=1.0
    )


def _label(span: Span) -> str:
    if span.kind == "kernel":
        return short_name(span.name)
    if span.kind == "call":
        return span.name.removeprefix("cu")
    if span.nbytes:
        return _size(span.nbytes)
    return span.name


def _event(span: Span, pid: int, tid: int) -> dict:
    args = {"bytes": span.nbytes} if span.nbytes else {}
    if span.graph is not None:
        args["graph"] = span.graph
    return {
        "ph": "X", "name": short_name(span.name), "cat": span.kind, "pid": pid, "tid": tid, "ts": span.start_us,
        "dur": span.end_us - span.start_us, "args": args,
    }  # fmt: skip


def _union(spans: Iterable[Span]) -> list[tuple[float, float]]:
    """Disjoint intervals that cover the spans, in order."""
    out: list[tuple[float, float]] = []
    for start, end in sorted((s.start_us, s.end_us) for s in spans):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


def _intersection(a: list[tuple[float, float]], b: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """What two such lists share. One pass over both: a recording may have a hundred thousand spans of either."""
    out, k = [], 0
    for start, end in a:
        while k < len(b) and b[k][1] <= start:
            k += 1
        j = k
        while j < len(b) and b[j][0] < end:
            out.append((max(start, b[j][0]), min(end, b[j][1])))
            j += 1
        k = max(k, j - 1)  # the last one may reach into the next of `a`
    return out


def _length(intervals: list[tuple[float, float]]) -> float:
    return sum(end - start for start, end in intervals)


def _time(us: float) -> str:
    return f"{us / 1e3:.2f} ms" if us >= 1000 else f"{us:.1f} us"


def _size(nbytes: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if nbytes >= size:
            return f"{nbytes / size:.3g} {unit}"
    return f"{nbytes} B"
