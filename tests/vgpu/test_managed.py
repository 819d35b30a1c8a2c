"""Managed memory: which pages move, who faults, and what advice, prefetching and a full device do about it."""

import faulthandler
import gc
import itertools
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from numba import cuda
from numba.cuda.cudadrv.driver import CudaAPIError

import grader.vgpu
from grader.kit import advise, prefetch
from grader.vgpu.driver import faulting, paging
from grader.vgpu.driver.state import driver

pytestmark = pytest.mark.filterwarnings("ignore::numba.core.errors.NumbaPerformanceWarning")
LEAF, TREE = 64 << 10, 2 << 20
WORDS = TREE // 4  # float32 in a tree


@cuda.jit
def read(x, out, step, first, stop):  # numba takes no slice of a managed array as an argument
    i = first + cuda.grid(1) * step
    if i < stop and x[i] > 1e30:
        out[0] = 1


@cuda.jit
def write(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = 2


class Seen:
    """What paging did since the last look."""

    def __init__(self):
        cuda.synchronize()
        self.before = replace(paging.TOTALS)

    def __call__(self):
        cuda.synchronize()
        got = paging.TOTALS.since(self.before)
        self.before = replace(paging.TOTALS)
        return got["fault_groups"], got["host_fault_groups"], got["to_device"], got["to_host"]


def free_the_rest():
    """What numba still has to free of earlier tests."""
    gc.collect()
    cuda.current_context().memory_manager.deallocations.clear()


@pytest.fixture
def managed():
    """Two trees that the host has filled, nothing else managed being alive, and a look at what happens to them."""
    free_the_rest()
    x = cuda.managed_array(2 * WORDS, np.float32)
    x[:] = 1
    return x, Seen()


OUT = None


def reads(x, step=1, first=0, stop=None):
    global OUT
    if OUT is None:
        OUT = cuda.device_array(1, np.float32)
    stop = x.size if stop is None else stop
    n = -(-(stop - first) // step)
    read[-(-n // 256), 256](x, OUT, step, first, stop)


def test_a_dense_first_touch_faults_six_times_for_each_tree_and_once_only(managed):
    x, seen = managed
    reads(x)
    assert seen() == (12, 0, 2 * TREE, 0)
    reads(x)
    assert seen() == (0, 0, 0, 0)


def test_a_sparse_touch_brings_a_leaf_each(managed):
    x, seen = managed
    reads(x, step=WORDS)  # one element of each tree
    assert seen() == (2, 0, 2 * LEAF, 0)


def test_the_host_faults_for_what_it_reads_back_and_pays_with_its_own_time(managed):
    x, seen = managed
    reads(x)
    seen()
    before = driver_time()
    assert x[0] == 1
    assert seen() == (0, 1, 0, LEAF)
    assert driver_time() - before > 80
    reads(x)
    assert seen() == (1, 0, LEAF, 0)  # it was taken away, so the kernel faults again


def driver_time():
    from grader.vgpu.driver.clock import CLOCK

    return CLOCK.host_us


def test_memory_that_nobody_touched_faults_but_does_not_travel():
    x = cuda.managed_array(2 * WORDS, np.float32)
    seen = Seen()
    write[x.size // 256, 256](x)
    assert seen() == (12, 0, 0, 0)


def test_prefetching_moves_all_and_leaves_no_fault(managed):
    x, seen = managed
    prefetch(x)
    reads(x)
    assert seen() == (0, 0, 2 * TREE, 0)
    prefetch(x, "host")
    assert seen() == (0, 0, 0, 2 * TREE)
    assert x.sum() == x.size
    assert seen() == (0, 0, 0, 0)


def test_a_slice_is_prefetched_alone(managed):
    x, seen = managed
    prefetch(x[:WORDS])
    reads(x)
    assert seen() == (6, 0, 2 * TREE, 0)


def test_read_mostly_is_copied_until_somebody_writes(managed):
    x, seen = managed
    advise(x, "read mostly")
    reads(x)
    assert seen() == (12, 0, 2 * TREE, 0)
    assert x.sum() == x.size  # the host still has it
    reads(x)
    assert seen() == (0, 0, 0, 0)
    x[0] = 1
    assert seen()[1:] == (1, 0, 0)  # the device's copy of this leaf is no longer true
    reads(x)
    assert seen() == (1, 0, LEAF, 0)


def test_preferred_at_the_host_is_reached_there(managed):
    x, seen = managed
    advise(x, "preferred location", "host")
    reads(x)
    assert seen() == (2 * TREE // LEAF, 0, 0, 0)  # a fault for each leaf sets up the way; nothing moves
    reads(x)
    assert x[0] == 1
    assert seen() == (0, 0, 0, 0)


def test_accessed_by_the_device_needs_no_fault_at_all_and_takes_the_links_time(managed):
    x, seen = managed
    advise(x, "accessed by")
    reads(x)
    assert seen() == (0, 0, 0, 0)
    assert last_kernel_us() > 2 * TREE / 25e3  # 25 GB/s of PCIe 4.0
    advise(x, "accessed by", unset=True)
    reads(x)
    assert seen() == (12, 0, 2 * TREE, 0)


def test_a_kernel_on_the_part_that_is_there_does_not_pay_for_the_rest(managed):
    x, _ = managed
    prefetch(x[:WORDS])
    reads(x, stop=WORDS)
    assert last_kernel_us() < 20


def last_kernel_us():
    cuda.synchronize()
    kernel = [s for s in grader.vgpu.spans() if s.kind == "kernel"][-1]
    return kernel.end_us - kernel.start_us


def test_a_full_device_sends_the_oldest_trees_back(managed):
    x, seen = managed
    device = driver.devices[0]
    occupied = device.used_bytes
    device.used_bytes = device.card.memory_bytes - TREE
    try:
        reads(x, stop=WORDS)
        assert seen() == (6, 0, TREE, 0)
        reads(x, first=WORDS)
        assert seen() == (6, 0, TREE, TREE)
        reads(x, stop=WORDS)
        assert seen() == (6, 0, TREE, TREE)
        reads(x)  # the half that is there is thrown out before the sweep comes to it
        reads(x)
        assert seen() == (18, 0, 3 * TREE, 3 * TREE)
    finally:
        device.used_bytes = occupied


def test_faults_are_spans_while_the_kernel_runs(managed):
    x, _ = managed
    before = len(grader.vgpu.spans())
    reads(x)
    cuda.synchronize()
    kernel, *faults = grader.vgpu.spans()[before:]
    assert [f.nbytes // LEAF for f in faults] == [1, 1, 2, 4, 8, 16] * 2
    assert kernel.start_us == faults[0].start_us
    assert all(a.end_us == b.start_us for a, b in itertools.pairwise(faults))
    assert faults[-1].end_us < kernel.end_us


def test_a_tail_that_is_no_leaf_counts_its_bytes_only():
    x = cuda.managed_array(LEAF // 4 + 10, np.float32)
    x[:] = 1
    seen = Seen()
    reads(x)
    assert seen() == (2, 0, LEAF + 40, 0)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda x: prefetch(np.zeros(8)), "not managed memory"),
        (lambda x: prefetch(x, "moon"), "no place 'moon'"),
        (lambda x: prefetch(x[::2]), "contiguous"),
        (lambda x: prefetch(x[:0]), "empty"),
        (lambda x: advise(x, "be quick"), "no advice 'be quick'"),
    ],
)
def test_misuse_of_the_kit_is_a_value_error(managed, call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call(managed[0])


def test_freed_memory_is_ordinary_again():
    x = cuda.managed_array(WORDS, np.float32)
    x[:] = 1
    reads(x)
    cuda.synchronize()
    address = x.ctypes.data
    assert address in paging._live
    del x
    cuda.current_context().memory_manager.deallocations.clear()
    assert address not in paging._live


def test_a_segmentation_fault_elsewhere_is_still_one():
    """The handler gives addresses that are not managed memory to whoever had the signal before."""
    program = (
        "import grader.vgpu, ctypes, faulthandler; grader.vgpu.activate('a100')\n"
        "from numba import cuda; faulthandler.enable()\n"
        "x = cuda.managed_array(8, 'f4'); x[:] = 1\n"
        "print('managed', x.sum(), flush=True)\n"
        "ctypes.string_at(8)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=400)
    assert done.stdout == "managed 8.0\n"
    assert done.returncode == -11
    assert "Segmentation fault" in done.stderr
    assert faulthandler.is_enabled()  # pytest's own is still there


def test_one_managed_array_too_many_is_refused_and_leaves_the_others_usable(monkeypatch, capfd):
    free_the_rest()  # numba does it when memory is refused, and asks again
    first = cuda.managed_array(WORDS, np.float32)
    monkeypatch.setattr(faulting, "RANGES", len(paging._live))
    monkeypatch.setattr("grader.vgpu.driver.abi.SAID", {})  # each sentence is said once a process
    with pytest.raises(CudaAPIError, match="OUT_OF_MEMORY"):
        cuda.managed_array(WORDS, np.float32)
    assert "make one array of several" in capfd.readouterr().err
    write[WORDS // 256, 256](first)
    cuda.synchronize()
    assert (first == 2).all()
