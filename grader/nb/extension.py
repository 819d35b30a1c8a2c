"""`%load_ext grader`: chooses the device, says which it is, and shows what the sanitizers find below the cell.

A machine with a GPU uses it; one without gets the virtual A100. The environment variable GRADER_DEVICE chooses
otherwise: "cuda", or "virtual:t4", "virtual:h100*2", "virtual:a100*4@pcie" and so on.
"""

import atexit
import html
import importlib.util
import linecache
import os
import re
from contextlib import ExitStack
from functools import cache
from importlib.metadata import version

from grader import caches
from grader.nb import errors
from grader.nb.context import RESTART, is_lost

_BOX = (
    "border:1px solid #b3261e;border-left:6px solid #b3261e;background:#fdf3f2;color:#1f1f1f;"
    "padding:0.5em 0.9em;margin:0.3em 0;line-height:1.45"
)
_CODE = "background:none;color:inherit;font-size:0.95em;padding:0"
_ADDRESS = re.compile(r" at address 0x[0-9a-f]+, ")
_COMMENT = re.compile(r"\s+#[^'\"]*$")
_shown = 0
_lost = ExitStack()  # never left: see keep_what_is_lost


def load(shell) -> None:
    """Choose and announce the device, register the magics, watch the cells."""
    global _shown
    os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")  # small grids are what lessons are made of
    print(_start(os.environ.get("GRADER_DEVICE", "")))
    shell.push({"check": _check})
    _shown = len(_findings())
    shell.events.register("post_run_cell", show_findings)
    errors.register(shell)
    atexit.unregister(keep_what_is_lost)  # loaded again
    atexit.register(keep_what_is_lost)
    if importlib.util.find_spec("grader.vgpu.magics"):
        importlib.import_module("grader.vgpu.magics").register(shell)


def unload(shell) -> None:
    """Stop watching; the device stays."""
    shell.events.unregister("post_run_cell", show_findings)
    errors.unregister(shell)


def show_findings(result=None) -> None:
    """Display what the sanitizers found since the last cell, and what to do if an error of its lost the context."""
    global _shown
    found = _findings()
    fresh, _shown = found[_shown:], len(found)
    if fresh:
        from IPython.display import display

        display(Findings(fresh))
    error = getattr(result, "error_in_exec", None)
    if type(error).__name__ == "CudaAPIError" and is_lost():
        print(RESTART)


def keep_what_is_lost() -> None:
    """At the process's end: of a lost context nothing can be given back, so numba must not try.

    It would, with a traceback for each of its events and modules.
    """
    from numba import cuda

    if is_lost():
        _lost.enter_context(cuda.current_context().defer_cleanup())


class Findings:
    """Sanitizer findings, as a box or as text."""

    def __init__(self, found: list):
        self.rows = [_row(f) for f in found]

    def __repr__(self) -> str:
        return "\n".join(
            f"{tool}{f', line {line}' if line else ''}{f': {code}' if code else ''}\n    {said}"
            for tool, line, code, said in self.rows
        )

    def _repr_html_(self) -> str:
        items = []
        for tool, line, code, said in self.rows:
            where = f", line {line}" if line else ""
            quoted = f": <code style='{_CODE}'>{html.escape(code)}</code>" if code else ""
            items.append(f"<div><b>{tool}</b>{where}{quoted}<br>{html.escape(said)}</div>")
        return f"<div style='{_BOX}'>{'<hr style=margin:0.4em>'.join(items)}</div>"


def _check(exercise: str, kernel: object, graded: bool = False):
    """Judge a kernel and show the grader's table: check("00_grid_stride", my_kernel)."""
    from grader.nb.check import check

    return check(exercise, kernel, graded)


def _start(wanted: str) -> str:
    """Make the device ready; one line that says which it is."""
    from grader import vgpu

    unsaid = wanted in ("", "auto")
    real = wanted.partition(":")[0] == "cuda" or (unsaid and _real_gpus())
    if vgpu.active() or not real:
        _compile_first()
        card = vgpu.activate("a100" if unsaid else wanted)[0]
        vgpu.options().announce = False  # a box below the cell says it better
        cc = "{}.{}".format(*card.cc)
        return f"Virtual GPU: {vgpu.describe()}, cc {cc}; times are modelled {_versions()}"
    from numba import cuda

    device = cuda.get_current_device()
    cc = "{}.{}".format(*device.compute_capability)
    return f"GPU: {_text(device.name)}, cc {cc}; times are measured {_versions()}"


def _compile_first() -> None:
    """The first time on a machine: all at once and with a word, else the first cells would each take long in silence."""
    from grader.vgpu.jit.compile import version_dir

    if version_dir().parent == caches.folder():
        caches.fill()


def _versions() -> str:
    """Of what lessons depend on, to the minor one."""
    minor = {name: ".".join(version(name).split(".")[:2]) for name in ("cuda-camp", "numba-cuda")}
    return "(" + ", ".join(f"{name} {number}" for name, number in minor.items()) + ")"


@cache
def _real_gpus() -> int:
    from grader.devices import cuda

    return cuda.count()


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name


def _findings() -> list:
    from grader import vgpu

    return vgpu.findings() if vgpu.active() else []


def _row(finding) -> tuple[str, int, str, str]:
    """(tool, line, text of that line, sentence); addresses, which differ from run to run, are left out."""
    line = finding.line or 0
    code = _COMMENT.sub("", linecache.getline(finding.file, line).strip()) if finding.file and line else ""
    return finding.tool, line, code, _ADDRESS.sub(", ", finding.message)
