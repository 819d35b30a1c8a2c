"""What a kernel's first launch adds to numba's own compile time: python -m tests.bench.first_launch, a line of JSON.

Runs all cases of tests/vgpu/course and times, for each kernel, what only the virtual GPU does: parsing and laying out the
PTX, and making or finding the machine code. Where machine code is kept is GRADER_CACHE_DIR; the caller chooses whether it
is empty. Assembling the PTX for its register count is not counted: without a virtual GPU numba does that too.
"""

import json
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "vgpu"))

from grader import vgpu

vgpu.activate("h100")
vgpu.options().announce = False

from course.run import load  # noqa: E402  (after the device has been chosen)

from grader.vgpu.machine import module  # noqa: E402

seconds: dict[str, float] = {}


def timed(function, name):
    """The function; its CPU seconds are added to what `name(self)` has taken so far."""

    def call(self, *args, **kwargs):
        start = time.process_time()
        try:
            return function(self, *args, **kwargs)
        finally:
            spent = time.process_time() - start
            for kernel in name(self):
                seconds[kernel] = seconds.get(kernel, 0.0) + spent

    return call


def main() -> None:
    warnings.simplefilter("ignore")
    cases = load()
    first = next(iter(cases.values()))
    first.run()  # what is done once a process
    seconds.clear()
    module.Module.__init__ = timed(module.Module.__init__, lambda self: self.kernels)
    module.Kernel._compile = timed(module.Kernel._compile, lambda self: [self.name])
    for case in cases.values():
        if case is first:
            continue
        try:
            case.run()
        except Exception as problem:  # a case that is to end in a fault
            if not case.finds and "debug" not in case.name:
                raise RuntimeError(case.name) from problem
    vgpu.finish()
    print(json.dumps(sorted(seconds.values())))


if __name__ == "__main__":
    main()
