"""`check("00_grid_stride", my_kernel)` in a notebook: the grader's own verdict, on the device of the notebook.

The path is that of `grader grade` (`grader.grade.grade`): the kernel is recorded, replayed with new inputs in another
process, and judged by the same rules. Two things differ. The answer is the kernel as it is in the notebook now,
recorded in a fork of the notebook's process, so that no mistake in it can hurt the session; and nobody is locked in,
since it is the student's own machine. What is worth marks is decided elsewhere, by a grader that trusts none of this.
"""

import io
import os
import re
import select
import signal
import sys
import time
import types
import warnings
from functools import cache

from grader import devices, problems, report
from grader.bench import Bench
from grader.grade import grade
from grader.nb.context import RESTART, is_lost
from grader.report.html import fragment
from grader.sandbox import Limits, Outcome, wire
from grader.submission import Cell

WALL_S = 180.0  # for one recording, on a busy machine too
_KERNEL = "_kernel_of_the_notebook"


class NotSolved(Exception):
    """The answer gets no points; the text is the verdict's sentence."""

    def _render_traceback_(self) -> list[str]:
        """One line in a notebook: where it was raised is of no interest."""
        return [f"Not solved yet. {self}"]


class ContextLost(Exception):
    """Nothing can be judged in this session any more."""

    def _render_traceback_(self) -> list[str]:
        """One line in a notebook."""
        return [str(self)]


class Result:
    """A verdict, shown as the grader's table."""

    def __init__(self, record: dict):
        self.record = record

    @property
    def code(self) -> str:
        """AC, WA, RTE, ..."""
        return self.record["code"]

    @property
    def points(self) -> float:
        """Points that this answer would get here."""
        return self.record["points"]

    def __repr__(self) -> str:
        return _text(self.record)

    def _repr_html_(self) -> str:
        return fragment(self.record)


class Points(float):
    """Points as a number, which is what nbgrader looks for, shown as the grader's table."""

    record: dict

    def __new__(cls, record: dict) -> "Points":
        self = super().__new__(cls, record["points"])
        self.record = record
        return self

    def _repr_html_(self) -> str:
        return fragment(self.record)


def check(exercise: str, kernel: object, graded: bool = False) -> Result | Points:
    """Judge a kernel; show the grader's table.

    A wrong answer raises nothing, unless `graded`: then the result is a number of points for nbgrader, and an answer
    that gets none raises NotSolved. UnknownExercise if there is no such exercise; ContextLost after an error that ended
    the session's context.
    """
    problem = problems.get(exercise)
    if is_lost():
        raise ContextLost(f"Not judged. {RESTART}")
    with _bench() as bench:
        verdict, seconds = _judge(bench, problem, kernel)
        record = report.make(
            "this notebook", verdict, device=bench.device.describe(), seed=bench.seed, wall_seconds=seconds
        )
    if not graded:
        return Result(record)
    if record["code"] in ("AC", "SLOW"):
        return Points(record)
    _show(record)
    raise NotSolved(f"{record['code']}: {record['message']}")


def _judge(bench, problem, kernel):
    bench.take(kernel)
    start = time.perf_counter()
    verdict = grade(bench.cells(), problem, bench, bench.seed)
    return verdict, time.perf_counter() - start


class NotebookBench(Bench):
    """A bench whose student is this process. Entered once a check; the device behind it stays open until the end."""

    def __init__(self, spec: str):
        self.device = self.watcher = devices.open(spec, trust=True)
        self.trust = True
        self.protections = ()
        self.seed = 0
        self._students = Fork()
        self._trusted, self._known = {}, {}

    def take(self, kernel: object) -> None:
        """The answer to judge next, with inputs that were not seen before."""
        self._students.kernel = kernel
        self.seed = int.from_bytes(os.urandom(7), "little")

    def cells(self) -> list[Cell]:
        """None: the kernel is there already."""
        return []

    def __exit__(self, *exception: object) -> None:
        self._students.kernel = None


class GpuBench(Bench):
    """A bench on a real GPU, whose driver this process has in use: the cells run so far are the submission."""

    def take(self, kernel: object) -> None:
        """Inputs that were not seen before."""
        self.seed = int.from_bytes(os.urandom(7), "little")

    def cells(self) -> list[Cell]:
        """What was typed in this session, but for the checks."""
        from IPython import get_ipython

        typed = enumerate(get_ipython().user_ns["In"])
        return [Cell(f"cell {n}", source) for n, source in typed if not re.search(r"^check\(", source, re.MULTILINE)]

    def __exit__(self, *exception: object) -> None:
        pass


class Fork:
    """Stands in for the locked-in student process: does the recording in a fork of this one."""

    def __init__(self):
        self.kernel: object = None

    def run(self, job: str, request: dict, blobs: list[bytes], limits: Limits) -> Outcome:
        """The outcome of `grader.jobs:record`; without cells in the request, for the kernel."""
        request = request | {"present": True}
        if not request["cells"]:
            name = request["entry"]["name"]
            request = request | {"cells": [["this notebook", f"from {_KERNEL} import {name}"]]}
            sys.modules[_KERNEL] = types.ModuleType(_KERNEL)
            setattr(sys.modules[_KERNEL], name, _fresh(self.kernel))
        out, end = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a fork of a process with threads: the child touches none of them
            child = os.fork()
        if child == 0:
            _be_the_child(end, request, blobs)
        os.close(end)
        try:
            return _receive(out)
        finally:
            os.close(out)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _be_the_child(end: int, request: dict, blobs: list[bytes]) -> None:
    """Record, send, and be gone; never returns."""
    try:
        sys.stdout = sys.stderr = io.StringIO()
        from grader import jobs

        for piece in wire.pack(*jobs.record(request, blobs)):
            view = memoryview(piece)
            while view:
                view = view[os.write(end, view) :]
    finally:
        os._exit(0)


def _receive(out: int) -> Outcome:
    reader = wire.Reader(max_header=1 << 26, max_blobs=1 << 30)
    stop = time.monotonic() + WALL_S
    while True:
        ready, _, _ = select.select([out], [], [], max(0.0, stop - time.monotonic()))
        if not ready:
            return Outcome("time", "recording the kernel took too long")
        data = os.read(out, 1 << 20)
        if not data:
            return Outcome("crashed", "the kernel could not be recorded")
        reader.feed(data)
        if (frame := reader.next()) is not None:
            return Outcome("ok", "", header=frame[0], blobs=tuple(frame[1]))


def _fresh(kernel: object) -> object:
    """The kernel, not compiled yet: the recording has to see its code being loaded."""
    from numba.cuda.dispatcher import CUDADispatcher

    if isinstance(kernel, CUDADispatcher):
        return CUDADispatcher(kernel.py_func, targetoptions=dict(kernel.targetoptions))
    return kernel


@cache
def _bench() -> NotebookBench | GpuBench:
    """The bench of this session."""
    from grader import vgpu

    cards = vgpu.active()
    return NotebookBench(f"virtual:{cards[0].key}") if cards else GpuBench("cuda", trust=True)


def _text(record: dict) -> str:
    from rich.console import Console

    console = Console(
        file=io.StringIO(), width=100, highlight=False, force_jupyter=False, force_terminal=False, color_system=None
    )
    console.print(report.detail(record))
    return console.file.getvalue().rstrip()


def _show(record: dict) -> None:
    from IPython.display import display

    display(Result(record))
