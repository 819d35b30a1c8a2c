"""Compile ahead: what one process does while another compiles the rest, so that two fill the cache in half the time.

The other one starts the virtual GPU and launches a kernel, which compiles everything that is not there yet in the order
in which it is needed. This one goes from the end: what is needed last, first.
"""

from numba import types

from grader.vgpu.jit.raw import WORDS
from grader.vgpu.machine import runtime, schedule
from grader.vgpu.model import simulate


def main() -> None:
    """Compile the clock, the scheduler of blocks, and the functions that kernels call, the last ones first."""
    simulate.compile()
    schedule.run_grid.compile((WORDS, WORDS, WORDS, types.int64))
    for function in reversed(runtime.functions().values()):
        _ = function.address


if __name__ == "__main__":
    main()
