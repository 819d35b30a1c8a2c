"""Run cases and say what became of each: `python -m course.run DEVICE CASE...` prints a line of JSON apiece.

DEVICE is a virtual GPU, "h100", on which the sanitizers watch, or "cuda", this machine's driver. Without names, "cuda"
runs all that its card can run and that is not faulty by design.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback

os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")
os.environ.setdefault("NUMBA_CUDA_WARN_ON_IMPLICIT_COPY", "0")

import grader.vgpu
from course import CASES

MODULES = ("elementwise", "reductions", "grids", "numbers", "asynchronous")


def load() -> dict:
    """All cases. The virtual GPU has to be active."""
    for module in MODULES:
        importlib.import_module(f"course.{module}")
    return CASES


def watched(run) -> list:
    """Run it with all sanitizers on: what they find."""
    options = grader.vgpu.options()
    options.racecheck = options.initcheck = True
    grader.vgpu.finish()
    before = len(grader.vgpu.findings())
    run()
    grader.vgpu.finish()
    return [f"{found.tool}, line {found.line}: {found.message}" for found in grader.vgpu.findings()[before:]]


def for_the_card(cases: dict) -> list[str]:
    """What this machine's GPU can run and what is right."""
    from numba import cuda

    hopper = cuda.get_current_device().compute_capability >= (9, 0)
    return [case.name for case in cases.values() if not case.finds and (hopper or not case.hopper)]


def main(device: str, *names: str) -> None:
    """See the module's text."""
    virtual = device != "cuda"
    if virtual:
        grader.vgpu.activate(device)
    cases = load()
    for name in names or for_the_card(cases):
        error, found = "", []
        try:
            found = watched(cases[name].run) if virtual else cases[name].run() or []
        except BaseException:
            error = traceback.format_exc()
        print(json.dumps({"case": name, "error": error, "findings": found}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
