"""The state of one simulated SM, its parameters and its results: the records that the parts of the simulation share.

A record's fields have names, in Python and in compiled code alike. Latencies and times are in cycles.
"""

import numba
import numpy as np
from numba import types

from ..jit import raw

STALLS = (
    "selected", "not selected", "wait", "math pipe throttle", "short scoreboard", "long scoreboard", "barrier",
    "lg throttle", "mio throttle", "membar", "dispatch stall",
)  # fmt: skip
SELECTED, NOT_SELECTED, WAIT, MATH, SHORT, LONG, BAR, LG, MIO, MEMBAR, DISPATCH = range(len(STALLS))
TO_FETCH = -1  # a warp's reason before its next instruction is known

SCHEDULERS = 4
WAYS = 8  # of the L1
GROUPS = 64  # groups of copies of a warp that are told apart
TOUCHED = 1 << 18  # lines of which it is known which sectors were touched; a power of two
NEVER = 1e30

RUN, AT_BARRIER, AT_MBARRIER, DONE, ABSENT = range(5)  # states of a warp


def _record(ints: str, floats: str) -> np.dtype:
    fields = [(name, np.int64) for name in ints.split()] + [(name, np.float64) for name in floats.split()]
    return np.dtype(fields, align=True)


# ---------------------------------------------------------------- what it is given
# Latencies and the least cost of a load in cycles, rates in bytes a cycle; written, retouched: parts of the sectors that are
# written, and of those touched again, that go to DRAM or come from it; wavefront: cycles of the L1's data stage.
MACHINE = _record(
    "sets",
    "l1_latency shared_latency l2_latency dram_latency l1_least l2_rate dram_rate written retouched wavefront budget",
)
# regs to dests: registers that are read, dests to regs_end: those that are written
INSTRUCTION = _record("kind pipe site arg regs dests regs_end", "slots latency")
# miss: of first touches of sectors, the part that nobody brought to L2 before; due: sectors that are due from DRAM
SITE = _record("", "miss due")

# ---------------------------------------------------------------- what becomes of it
# pos, end: of the warp's trace, where it goes on and where it ends; ip, ip_end: of the block of code under way; entry: where
# that has its entries in the trace; awaited, parity: the mbarrier at which it waits. since: end of its last issue; order: when
# its block started; copied: when all its cp.async end; pending: when the last of its memory operations ends; held: how long
# it waited at an mbarrier, for the samples.
WARP = _record(
    "pos end ip ip_end entry reason state barrier awaited parity held_why", "ready since order copied pending held"
)
SCORE = _record("why", "time")  # of a warp's register: when it is there, and what it is waited for until then
QUEUE = _record("n", "latest")  # of a warp's copies: groups that are not waited for yet; when those after them end
BLOCK = _record("copy left fresh", "fresh_at")  # copy: how often its trace was used before; left: warps not done
MBARRIER = _record("address count pending nbytes phase why done_why", "latest done")
SCHEDULER = _record("dirty best_warp", "free busy best")
PIPE = _record("", "free busy interval")  # interval: cycles from one instruction to the next
LINE = _record("tag sectors", "fill age")
TOUCH = _record("line sectors", "")
# free: when the L1's data stage, the way to L2 and that to DRAM are; last: the end of the last issue; due: sectors written
# that are due to DRAM; fresh: places for blocks; waits, parity: the mbarrier that an instruction must wait at, or -1
CLOCK = _record("started finished fresh touched issued waits parity", "now last l1_free l2_free dram_free due")
# Sectors; busy: cycles; slots: instructions as the machine code has them; first_wave: when all places were free once
RESULT = _record(
    "",
    "cycles instructions slots done first_wave l1_hits l1_sectors l2_sectors dram_read dram_write shared l1_busy l2_busy "
    "l2_free dram_free",
)
SAMPLE = _record("warp instruction why", "start end waited order")  # an issue


# Nothing of the simulation allocates, so numba need not count references to arrays (`_nrt`), which would take two thirds
# of the time.
_OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy", "_nrt": False}


def part(fn):
    """A part of the simulation, compiled into the whole. A constant argument does not get it a version of its own."""
    with raw.kept():
        dispatcher = numba.njit(forceinline=True, **_OPTIONS)(fn)
    resolve = dispatcher.get_call_template
    dispatcher.get_call_template = lambda args, kws: resolve(tuple(map(types.unliteral, args)), kws)
    return dispatcher


def whole(fn):
    """What Python calls."""
    with raw.kept():
        return numba.njit(**_OPTIONS)(fn)


@part
def waited(stalls, i, why, cycles):
    """A warp has waited at instruction i; the last row is the sum."""
    stalls[i, why] += cycles
    stalls[len(stalls) - 1, why] += cycles
