"""What the host touches of page-locked memory too early: the cases that the corpus of hazards cannot hold."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cuda.bindings import driver as cu
from numba import cuda

import grader.vgpu
from grader.vgpu import driver
from grader.vgpu.driver.guard import GUARD, MANY, PAGE
from grader.vgpu.driver.state import driver as state

N = 1024  # float32 in a page


@pytest.fixture
def found():
    """A function that gives what has been found since the test began, and forgets it."""
    state.findings.clear()

    def take():
        findings = [f for f in grader.vgpu.findings() if f.tool == "racecheck"]
        state.findings.clear()
        return [(f.kind, f.line, f.other_line) for f in findings]

    yield take
    cuda.synchronize()
    state.findings.clear()
    state.options.racecheck, state.options.hostcheck = True, False


def line() -> int:
    return sys._getframe(1).f_lineno


def pinned(n=N):
    host = cuda.pinned_array(n, np.float32)
    host[:] = 0
    return host


def ones(n=N):
    return cuda.to_device(np.ones(n, np.float32))


def test_pinned_memory_starts_at_a_page_and_ends_with_one():
    one, two = cuda.pinned_array(3, np.uint8), cuda.pinned_array(3, np.uint8)
    assert one.ctypes.data % PAGE == two.ctypes.data % PAGE == 0
    assert abs(one.ctypes.data - two.ctypes.data) >= PAGE


def test_without_racecheck_nothing_is_protected(found):
    state.options.racecheck = False
    host, s, x = pinned(), cuda.stream(), ones()
    x.copy_to_host(host, stream=s)
    assert not GUARD._runs and host.sum() == 0
    s.synchronize()
    assert host.sum() == N
    assert found() == []


def test_hostcheck_alone_sees_the_host_too(found):
    state.options.racecheck, state.options.hostcheck = False, True
    host, s, x = pinned(), cuda.stream(), ones()
    at = line() + 1
    x.copy_to_host(host, stream=s)
    assert host.sum() == 0
    assert found() == [("host before synchronisation", at + 1, at)]


def test_only_pages_that_are_under_way_as_a_whole_are_protected():
    host, s, x = pinned(4 * N), cuda.stream(), ones(4 * N)
    x[100 : 3 * N + 100].copy_to_host(host[100 : 3 * N + 100], stream=s)
    first = host.ctypes.data
    assert [(a - first, b - first) for a, b, _ in GUARD._runs] == [(PAGE, 3 * PAGE)]
    x[:100].copy_to_host(host[:100], stream=s)  # the first page is whole now
    assert (GUARD._runs[0][0] - first, GUARD._runs[-1][1] - first) == (0, 3 * PAGE)
    s.synchronize()
    assert GUARD._runs == []


def test_the_last_page_of_pinned_memory_is_whole_and_that_of_registered_memory_is_not():
    host, s, x = pinned(N + 1), cuda.stream(), ones(N + 1)
    x.copy_to_host(host, stream=s)
    assert sum(b - a for a, b, _ in GUARD._runs) == 2 * PAGE
    s.synchronize()
    pages = np.zeros(4 * N, np.float32)
    start = -pages.ctypes.data % PAGE // 4
    mine = pages[start : start + N + 1]
    with cuda.pinned(mine):
        x.copy_to_host(mine, stream=s)
        assert sum(b - a for a, b, _ in GUARD._runs) == PAGE
        s.synchronize()


def test_more_than_can_be_watched_goes_unwatched(found):
    host, s, x = pinned((MANY + 40) * N), cuda.stream(), ones()
    for k in range(MANY + 40):
        x.copy_to_host(host[k * N : (k + 1) * N], stream=s)
    assert len(GUARD._runs) == MANY
    assert host[MANY * N] == 0 and found() == []
    assert host[0] == 0 and len(found()) == 1
    s.synchronize()
    assert (host == 1).all() and GUARD._runs == []


def test_what_a_recording_reads_is_no_touch_of_the_programs(found):
    told = []
    host, s, x = pinned(), cuda.stream(), ones()
    with driver.record(told.append):
        x.copy_to_host(host, stream=s)
        x.copy_to_device(host, stream=s)
        s.synchronize()
    assert [op["kind"] for op in told if op["op"] == "copy"] == ["d2h", "h2d"]
    assert found() == []


def test_a_synchronous_copy_leaves_no_page_protected(found):
    host, x = pinned(), ones()
    x.copy_to_host(host)
    assert GUARD._runs == [] and host.sum() == N and found() == []


def test_a_pitched_copy_is_guarded_where_its_rows_fill_pages(found):
    host, s, x = pinned(8 * N), cuda.stream(), ones(4 * N)
    params = cu.CUDA_MEMCPY2D()
    params.srcMemoryType, params.srcDevice = cu.CUmemorytype.CU_MEMORYTYPE_DEVICE, x.device_ctypes_pointer.value
    params.dstMemoryType, params.dstHost = cu.CUmemorytype.CU_MEMORYTYPE_HOST, host.ctypes.data
    params.srcPitch, params.dstPitch, params.WidthInBytes, params.Height = PAGE, 2 * PAGE, PAGE, 4
    at = line() + 1
    cu.cuMemcpy2DAsync(params, int(s.handle))
    assert host[N : 2 * N].sum() == 0 and found() == []  # between two rows
    assert host[2 * N] == 0
    assert found() == [("host before synchronisation", at + 2, at)]
    s.synchronize()
    assert host.sum() == 4 * N


def test_a_stream_whose_context_goes_leaves_no_page_protected():
    state_of = cu.cuCtxGetCurrent()[1]
    context = cu.cuCtxCreate(None, 0, cu.cuDeviceGet(0)[1])[1]
    device, memory = cu.cuMemAlloc(PAGE)[1], cu.cuMemAllocHost(PAGE)[1]
    stream = cu.cuStreamCreate(1)[1]
    assert cu.cuMemcpyDtoHAsync(memory, device, PAGE, stream) == (0,)
    assert GUARD._runs
    cu.cuCtxDestroy(context)
    cu.cuCtxSetCurrent(state_of)
    assert GUARD._runs == [] and GUARD._touches == []


PROGRAM = """
import os, sys
import grader.vgpu
grader.vgpu.activate("a100")
import numpy as np
from numba import cuda

x, s, host = cuda.to_device(np.ones(1024, np.float32)), cuda.stream(), cuda.pinned_array(1024, np.float32)


def early():
    x.copy_to_host(host, stream=s)
    host.sum()
    s.synchronize()
    return [(os.path.basename(f.file), f.line) for f in grader.vgpu.findings()]


"""


def result_of(path: Path, rest: str) -> list[str]:
    path.write_text(PROGRAM + rest)
    env = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, str(path)], stdout=subprocess.PIPE, text=True, env=env, check=True)
    return done.stdout.splitlines()


def test_the_line_is_right_whatever_the_file_is_called(tmp_path):
    name = "früh 早い 🕐.py"
    assert result_of(tmp_path / name, "print(early())") == [str([(name, 13)])]


def test_a_forked_child_reports_its_own(tmp_path):
    rest = """
print(early(), flush=True)
from grader.vgpu.driver.state import driver
driver.findings.clear()
child = os.fork()
if not child:
    print(early(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(early())
"""
    assert result_of(tmp_path / "forks.py", rest) == ["[('forks.py', 13)]"] * 3


def test_threads_that_touch_at_the_same_time_are_all_reported(tmp_path):
    rest = """
import threading
streams, hosts = [cuda.stream() for _ in range(8)], [cuda.pinned_array(1024, np.float32) for _ in range(8)]
for a, b in zip(hosts, streams):
    x.copy_to_host(a, stream=b)
ready = threading.Barrier(8)


def look(a):
    ready.wait()
    a.sum()


threads = [threading.Thread(target=look, args=(a,)) for a in hosts]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print([(f.line, f.count) for f in grader.vgpu.findings()])
"""
    at = (PROGRAM + rest).splitlines().index("    a.sum()") + 1
    assert result_of(tmp_path / "threads.py", rest) == [str([(at, 8)])]
