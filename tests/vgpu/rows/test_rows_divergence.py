"""Random structured programs against their reading lane by lane: branches, loops, joins, and what is uniform."""

import struct

import numpy as np
from harness import HEADER
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import TABLE, make, outputs, ptx_of, read

from grader.vgpu.machine import LaunchOptions, Memory, Module, launch

THREADS, BLOCKS, U0 = 40, 2, 5  # the second warp of each block is a partial one
UNWRITTEN = 0xDEADBEEF


def check(program, watched=True):
    """Run the program on the machine and compare every register of every thread."""
    memory = Memory()
    text = HEADER + ptx_of(program)
    kernel = Module(text, memory).kernels["k"]
    total = outputs(program)
    table, target = memory.allocate(256), memory.allocate(4 * total * THREADS * BLOCKS)
    memory.view(table.address, 256).view(np.uint32)[:] = TABLE
    memory.written(table.address, 256)
    memory.view(target.address, target.nbytes).view(np.uint32)[:] = UNWRITTEN
    options = (
        LaunchOptions(deadline=30.0) if watched else LaunchOptions(racecheck=False, initcheck=False, deadline=30.0)
    )
    args = struct.pack("<qqI", table.address, target.address, U0)
    result = launch(kernel, (BLOCKS, 1, 1), (THREADS, 1, 1), args, options=options)
    assert result.fault is None, f"{result.fault}\n{text}"
    assert not result.findings, f"{result.findings}\n{text}"
    got = memory.view(target.address, target.nbytes).view(np.uint32).reshape(BLOCKS, THREADS, total)
    for block in range(BLOCKS):
        for tid, row in enumerate(read(program, THREADS, block, U0)):
            want = [UNWRITTEN] * total if row is None else row
            assert got[block, tid].tolist() == want, f"block {block}, thread {tid}\n{text}"


@settings(max_examples=40)
@given(st.data())
def test_random_programs_run_as_they_read(data):
    def choose(n):
        return data.draw(st.integers(0, n - 1))

    check(make(choose, size=data.draw(st.integers(4, 26))))
