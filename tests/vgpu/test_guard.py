"""What the host touches of page-locked memory too early: the cases that the corpus of hazards cannot hold."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from cuda.bindings import driver as cu
from numba import cuda

import grader.vgpu
from grader.vgpu import driver
from grader.vgpu.driver import faulting
from grader.vgpu.driver.area import PAGE
from grader.vgpu.driver.faulting import WRITE
from grader.vgpu.driver.guard import GUARD, MANY
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


def closed() -> list[tuple[int, int]]:
    """Runs of protected pages, in all areas: first address, end."""
    found = []
    for area in GUARD._areas.values():
        edges = np.flatnonzero(np.diff(area._force != WRITE, prepend=False, append=False))
        found += [(area.first + int(a) * PAGE, area.first + int(b) * PAGE) for a, b in edges.reshape(-1, 2)]
    return found


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
    assert not closed() and host.sum() == 0
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
    assert [(a - first, b - first) for a, b in closed()] == [(PAGE, 3 * PAGE)]
    x[:100].copy_to_host(host[:100], stream=s)  # the first page is whole now
    assert [(a - first, b - first) for a, b in closed()] == [(0, 3 * PAGE)]
    s.synchronize()
    assert closed() == []


def test_the_last_page_of_pinned_memory_is_whole_and_that_of_registered_memory_is_not():
    host, s, x = pinned(N + 1), cuda.stream(), ones(N + 1)
    x.copy_to_host(host, stream=s)
    assert sum(b - a for a, b in closed()) == 2 * PAGE
    s.synchronize()
    pages = np.zeros(4 * N, np.float32)
    start = -pages.ctypes.data % PAGE // 4
    mine = pages[start : start + N + 1]
    with cuda.pinned(mine):
        x.copy_to_host(mine, stream=s)
        assert sum(b - a for a, b in closed()) == PAGE
        s.synchronize()


def test_more_than_can_be_watched_goes_unwatched(found):
    host, s, x = pinned((MANY + 40) * N), cuda.stream(), ones()
    for k in range(MANY + 40):
        x.copy_to_host(host[k * N : (k + 1) * N], stream=s)
    assert sum(b - a for a, b in closed()) == MANY * PAGE
    assert host[MANY * N] == 0 and found() == []
    assert host[0] == 0 and len(found()) == 1
    s.synchronize()
    assert (host == 1).all() and closed() == []


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
    assert closed() == [] and host.sum() == N and found() == []


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
    assert closed()
    cu.cuCtxDestroy(context)
    cu.cuCtxSetCurrent(state_of)
    assert not GUARD._areas and not GUARD._under_way and not GUARD._count


@cuda.jit
def double(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = 2 * x[i]


def mapped(n=N):
    host = cuda.mapped_array(n, np.float32)
    host[:] = 1
    return host


def test_of_what_a_kernel_only_reads_the_host_may_read_and_of_what_it_may_write_nothing():
    x, out, s = mapped(), mapped(), cuda.stream()
    double[8, 128, s](x, out)
    of = {area.allocation.address: area for area in GUARD._areas.values()}
    assert of[x.ctypes.data].wanted.tolist() == [faulting.READ]
    assert of[out.ctypes.data].wanted.tolist() == [faulting.NONE]
    s.synchronize()
    assert not GUARD._areas


def test_only_the_part_of_an_array_that_a_kernel_gets_is_guarded():
    x, out, s = mapped(), mapped(4 * N), cuda.stream()
    data = out.ctypes.data + 2 * PAGE, False
    interface = {"shape": (N,), "typestr": "<f4", "data": data, "version": 3}
    double[8, 128, s](x, cuda.as_cuda_array(SimpleNamespace(__cuda_array_interface__=interface)))
    area = next(a for a in GUARD._areas.values() if a.allocation.address == out.ctypes.data)
    assert area.wanted.tolist() == [faulting.WRITE] * 2 + [faulting.NONE, faulting.WRITE]
    s.synchronize()
    assert (out[2 * N : 3 * N] == 2).all()


def test_each_part_of_an_array_is_looked_at_until_the_kernel_has_run(found):
    """The first touch is of what the kernel does not write; touches of other pages are noted all the same."""
    x, out, s = mapped(N // 2), mapped(4 * N), cuda.stream()
    double[8, 128, s](x, out)
    assert out[4 * N - 1] == 1 and out[N] == 1
    at = line() + 1
    assert out[7] == 1
    assert found() == []  # it is not known yet
    s.synchronize()
    assert found() == [("host before synchronisation", at, at - 3)]


def test_hostcheck_alone_knows_what_a_kernel_has_written(found):
    state.options.racecheck, state.options.hostcheck = False, True
    x, out, s = mapped(), mapped(), cuda.stream()
    at = line() + 1
    double[4, 128, s](x, out)  # the first half
    assert out[N // 2] == 1
    s.synchronize()
    assert found() == []
    double[4, 128, s](x, out)
    assert out[3] == 2 and out[4] == 2
    s.synchronize()
    assert found() == [("host before synchronisation", at + 5, at + 4)]


def test_more_than_a_page_can_be_put_together_from_is_left_open():
    host, s, x = pinned(), cuda.stream(), ones()
    for k in range(128):
        x[8 * k : 8 * k + 8].copy_to_host(host[8 * k : 8 * k + 8], stream=s)
        assert len(closed()) == 0
    s.synchronize()
    assert (host == 1).all()
    for k in range(32):
        x[32 * k : 32 * k + 32].copy_to_host(host[32 * k : 32 * k + 32], stream=s)
    assert len(closed()) == 1
    s.synchronize()


def test_copies_that_come_and_go_leave_the_pages_that_are_covered():
    """Whatever the order, the pages in force are those that a count from nothing gives."""
    random = np.random.default_rng(3)
    host, x = pinned(8 * N), ones(8 * N)
    streams = [cuda.stream() for _ in range(12)]
    under_way = {}
    for k in range(60):
        stream = streams[k % 12]
        if stream in under_way:
            stream.synchronize()
        start, stop = sorted(random.integers(0, 8 * N, 2).tolist())
        stop += 1
        x[start:stop].copy_to_host(host[start:stop], stream=stream)
        under_way[stream] = (start, stop)
        covered = np.zeros(8 * N, bool)
        for a, b in under_way.values():
            covered[a:b] = True
        whole = covered.reshape(8, N).all(axis=1)
        edges = np.flatnonzero(np.diff(whole, prepend=False, append=False)).reshape(-1, 2)
        assert [((a - host.ctypes.data) // PAGE, (b - host.ctypes.data) // PAGE) for a, b in closed()] == [
            tuple(edge) for edge in edges.tolist()
        ]
    cuda.synchronize()


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


GIVEN_BACK = """
import ctypes, mmap, os, sys
import grader.vgpu
grader.vgpu.activate("a100")
from cuda.bindings import driver as cu
import numpy as np
from numba import cuda

@cuda.jit
def fill(x):
    x[cuda.grid(1)] = 1

libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
NBYTES = 8 * 4096
d, s = cuda.to_device(np.ones(NBYTES // 4, np.float32)), cuda.stream()
there = libc.mmap(None, NBYTES, 3, 0x22, -1, 0)  # private and anonymous
assert cu.cuMemHostRegister(there, NBYTES, 0) == (0,)
array = cuda.as_cuda_array(type("A", (), {"__cuda_array_interface__":
    {"shape": (NBYTES // 4,), "typestr": "<f4", "data": (there, False), "version": 3}})())
fill[1, 32, s](d)
s.synchronize()
"""


@pytest.mark.parametrize(
    ("work", "after", "said", "kind"),
    [
        ("cu.cuMemcpyDtoHAsync(there, d.device_ctypes_pointer.value, NBYTES, s.handle)",
         "cu.cuStreamSynchronize(s.handle)", "CUDA_ERROR_ILLEGAL_ADDRESS", "use after free"),
        ("fill[64, 128, s](array)", "cu.cuStreamSynchronize(s.handle)", "CUDA_ERROR_ILLEGAL_ADDRESS", "use after free"),
        ("pass", "cu.cuMemHostUnregister(there)", "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "invalid free"),
    ],
    ids=["copy", "kernel", "unregister"],
)  # fmt: skip
def test_registered_memory_that_is_given_back_under_a_queued_operation_is_an_error(tmp_path, work, after, said, kind):
    text = GIVEN_BACK + f"{work}\nlibc.munmap(there, NBYTES)\n(error,) = {after}\nprint(error.name)\n"
    text += "print([f.kind for f in grader.vgpu.findings() if f.tool == 'memcheck'])\n"
    (tmp_path / "program.py").write_text(text)
    env = {**os.environ, "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, str(tmp_path / "program.py")]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
    assert done.stdout.splitlines() == [said, str([kind])], done.stderr
    assert "defect" not in done.stderr
