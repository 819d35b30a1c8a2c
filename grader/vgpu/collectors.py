"""Who tells what a stretch of Python made the device do. All give the same `Timeline`, and say what they cannot see.

    collector = choose()
    collector.start()
    ...                                 # anything that uses CUDA
    timeline = collector.stop()         # .how says "modelled" or "measured"

`Virtual` reads the virtual GPU's clock. On a GPU `Cupti` asks NVIDIA's CUPTI, through its Python package, for every
kernel, copy and driver call; where that is not installed or not permitted, `Events` takes the time of the whole.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Protocol

from grader import vgpu
from grader.vgpu.driver.clock import Span
from grader.vgpu.timeline import Timeline

ELSEWHERE = (
    "For all of it without one, put --virtual behind the magic's name: this notebook's cells so far, and this one, are "
    "then run again on the virtual GPU, in a process of their own, and times are modelled."
)


class Collector(Protocol):
    """What each offers."""

    missing: tuple[str, ...]  # sentences: what it cannot see, and what to do about it

    def start(self) -> None:
        """From here on."""

    def stop(self) -> Timeline:
        """Wait until the device has done all that it was given; what it did since `start`."""


def choose() -> Collector:
    """The one that sees most here."""
    if vgpu.active():
        return Virtual()
    try:
        return Cupti(_cupti())
    except ImportError as error:
        why = f"CUPTI's Python package cannot be loaded ({error}): `pip install cupti-python` brings it."
    except Unpermitted as error:
        why = str(error)
    return Events(why)


def _cupti():
    """NVIDIA's package cupti-python. Raises ImportError where it is not installed."""
    from cupti import cupti

    return cupti


class Unpermitted(RuntimeError):
    """CUPTI is installed and refuses to work here; the text says why."""


class Virtual:
    """The virtual GPU's clock."""

    missing = ()

    def start(self) -> None:
        vgpu.finish()
        self._spans, self._calls = len(vgpu.spans()), len(vgpu.calls())

    def stop(self) -> Timeline:
        vgpu.finish()
        return Timeline.now(self._spans, self._calls)


class Cupti:
    """CUPTI's activity records of kernels, copies, memsets and driver calls. `cupti`: the module cupti.cupti.

    Raises Unpermitted where CUPTI refuses to start: another profiler has it, or the machine does not allow it.
    """

    missing = ("Page faults of managed memory and what happens inside a kernel are not collected on a GPU.",)

    def __init__(self, cupti):
        self._cupti, self._spans, self._calls = cupti, [], []
        kinds = cupti.ActivityKind
        self._kinds = (kinds.CONCURRENT_KERNEL, kinds.MEMCPY, kinds.MEMCPY2, kinds.MEMSET, kinds.DRIVER)
        try:
            cupti.activity_register_callbacks(lambda: (8 << 20, 0), self._take)
            self._switch(True)
            self._switch(False)
        except (cupti.cuptiError, RuntimeError) as error:  # its own, and those of the package around it
            raise Unpermitted(
                f"CUPTI does not work here ({error}): another profiler may be attached to this process, or the machine "
                "may not let its users trace."
            ) from None

    def start(self) -> None:
        _synchronize()
        self._spans, self._calls = [], []
        self._default = _default_stream(self._cupti)
        self._zero = self._cupti.get_timestamp()
        self._switch(True)

    def stop(self) -> Timeline:
        _synchronize()
        self._cupti.activity_flush_all(1)
        self._switch(False)
        return Timeline(sorted(self._spans, key=lambda s: s.start_us), self._calls, "measured")

    def _switch(self, on: bool) -> None:
        for kind in self._kinds:
            (self._cupti.activity_enable if on else self._cupti.activity_disable)(kind)

    def _take(self, activities: list) -> None:
        """Records are read at once: their memory is CUPTI's."""
        for activity in activities:
            span = self._span(activity)
            if span is not None and span.end_us > span.start_us >= 0:
                (self._calls if span.kind == "call" else self._spans).append(span)

    def _span(self, activity) -> Span | None:
        cupti, kinds = self._cupti, self._cupti.ActivityKind
        start, end = ((t - self._zero) / 1e3 for t in (activity.start, activity.end))
        if activity.kind == kinds.DRIVER:
            name = cupti.get_callback_name(cupti.CallbackDomain.DRIVER_API, activity.cbid)
            return Span(str(name).split("_")[0], "call", 0, 0, "api", start, end)
        if activity.kind == kinds.CONCURRENT_KERNEL:
            name, kind, engine, nbytes = activity.name, "kernel", "compute", 0
        elif activity.kind == kinds.MEMSET:
            name, kind, engine, nbytes = "memset", "set", "compute", activity.bytes
        elif activity.kind == kinds.MEMCPY2:
            name, kind, engine, nbytes = "copy p2p", "p2p", "p2p", activity.bytes
        elif activity.kind == kinds.MEMCPY:
            copies = cupti.ActivityMemcpyKind
            kind = {copies.HTOD: "h2d", copies.DTOH: "d2h", copies.DTOD: "d2d", copies.PTOP: "p2p"}.get(
                activity.copy_kind, "d2d"
            )
            name, engine, nbytes = f"copy {kind}", "compute" if kind == "d2d" else kind, activity.bytes
        else:
            return None
        stream = 0 if activity.stream_id == self._default else activity.stream_id
        graph = activity.graph_id or None
        # Without a number for each launch, nodes that follow each other in a graph count as one.
        return Span(name, kind, activity.device_id, stream, engine, start, end, nbytes, graph)


class Events:
    """Two CUDA events around the whole. `why`: why there is no more."""

    def __init__(self, why: str):
        self.missing = (f"Only the time of the whole cell is measured here. {why}", ELSEWHERE)

    def start(self) -> None:
        from numba import cuda

        _synchronize()
        self._first, self._last = cuda.event(), cuda.event()
        self._first.record()

    def stop(self) -> Timeline:
        from numba import cuda

        self._last.record()
        _synchronize()
        us = 1e3 * cuda.event_elapsed_time(self._first, self._last)
        return Timeline([Span("the cell", "whole", 0, 0, "", 0.0, us)], [], "measured")


def _synchronize() -> None:
    from numba import cuda

    cuda.synchronize()


def _default_stream(cupti) -> int:
    """The number that CUPTI gives the default stream of the current context."""
    from cuda.bindings import driver

    code, context = driver.cuCtxGetCurrent()
    return cupti.get_stream_id_ex(int(context), 0, 0) if not int(code) and int(context) else -1


def counters_missing() -> tuple[str, ...]:
    """What stands between a notebook on a GPU and its kernels' counters: sentences."""
    ncu = shutil.which("ncu")
    where = f"Nsight Compute is here ({ncu}): `ncu --set full python script.py`" if ncu else (
        "Nsight Compute (ncu) is not on this machine's path; with it, `ncu --set full python script.py`"
    )  # fmt: skip
    said = [f"Counters of a running notebook cannot be read on a GPU. {where} has them, of a script."]
    settings = Path("/proc/driver/nvidia/params")
    if settings.exists() and "RmProfilingAdminOnly: 1" in settings.read_text():
        said.append(
            "This machine lets only its administrator read them (the driver's NVreg_RestrictProfilingToAdminUsers)."
        )
    return (*said, ELSEWHERE)
