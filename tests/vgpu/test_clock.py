"""The clock: kernels that are faster on a GPU are faster here, and the same launch takes the same time."""

import numpy as np
import pytest
from cuda.bindings import driver as cu
from driver_support import alloc, call
from numba import cuda, float32, int32

import grader.vgpu
from grader.vgpu.driver.clock import ALLOC_US, CALL_US, CAPTURE_NODE_US, CLOCK, GRAPH_LAUNCH_US, UPLOAD_NODE_US

pytestmark = pytest.mark.filterwarnings("ignore::numba.core.errors.NumbaPerformanceWarning")


@cuda.jit
def rows(a, b):
    x, y = cuda.grid(2)
    b[y, x] = a[y, x]


@cuda.jit
def columns(a, b):
    x, y = cuda.grid(2)
    b[x, y] = a[x, y]


@cuda.jit
def tile(a, b):
    t = cuda.shared.array((32, 32), float32)
    x, y = cuda.grid(2)
    t[cuda.threadIdx.y, cuda.threadIdx.x] = a[y, x]
    cuda.syncthreads()
    b[cuda.blockIdx.x * 32 + cuda.threadIdx.y, cuda.blockIdx.y * 32 + cuda.threadIdx.x] = t[
        cuda.threadIdx.x, cuda.threadIdx.y
    ]


@cuda.jit
def padded(a, b):
    t = cuda.shared.array((32, 33), float32)
    x, y = cuda.grid(2)
    t[cuda.threadIdx.y, cuda.threadIdx.x] = a[y, x]
    cuda.syncthreads()
    b[cuda.blockIdx.x * 32 + cuda.threadIdx.y, cuda.blockIdx.y * 32 + cuda.threadIdx.x] = t[
        cuda.threadIdx.x, cuda.threadIdx.y
    ]


@cuda.jit
def product(a, b, c):
    x, y = cuda.grid(2)
    total = float32(0)
    for k in range(a.shape[1]):
        total += a[y, k] * b[k, x]
    c[y, x] = total


@cuda.jit
def product_tiled(a, b, c):
    s, t = cuda.shared.array((32, 32), float32), cuda.shared.array((32, 32), float32)
    x, y = cuda.grid(2)
    i, j = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for m in range(0, a.shape[1], 32):
        s[j, i], t[j, i] = a[y, m + i], b[m + j, x]
        cuda.syncthreads()
        for k in range(32):
            total += s[j, k] * t[k, i]
        cuda.syncthreads()
    c[y, x] = total


@cuda.jit
def spin(out, n):
    i = cuda.grid(1)
    v = float32(i)
    for _ in range(int32(n)):
        v = v * float32(1.5) + float32(0.5)
    out[i] = v


def us(kernel, grid, block, *args) -> float:
    """What the clock says of a launch."""
    kernel[grid, block](*args)
    cuda.synchronize()
    return [s.end_us - s.start_us for s in grader.vgpu.spans() if s.kind == "kernel"][-1]


def square(n):
    return cuda.device_array((n, n), np.float32)


@pytest.fixture(autouse=True)
def quiet():
    options = grader.vgpu.options()
    before = options.racecheck, options.initcheck
    options.racecheck = options.initcheck = False
    yield
    options.racecheck, options.initcheck = before


def test_coalesced_copies_beat_strided_ones():
    a, b = square(1024), square(1024)
    assert us(columns, (32, 32), (32, 32), a, b) > 1.5 * us(rows, (32, 32), (32, 32), a, b)


def test_a_padded_tile_beats_one_with_bank_conflicts():
    a, b = square(1024), square(1024)
    assert us(tile, (32, 32), (32, 32), a, b) > 1.2 * us(padded, (32, 32), (32, 32), a, b)


def test_tiles_in_shared_memory_beat_loads_from_global_memory():
    a, b, c = square(256), square(256), square(256)
    assert us(product, (8, 8), (32, 32), a, b, c) > 1.2 * us(product_tiled, (8, 8), (32, 32), a, b, c)


def test_time_grows_with_work_and_not_below_one_wave():
    out = cuda.device_array(1 << 18, np.float32)
    one, two, full = (us(spin, (blocks,), (256,), out, 500) for blocks in (1, 108, 1024))
    assert one == pytest.approx(two, rel=0.1)
    assert full > 1.2 * two


def test_the_same_launch_takes_the_same_time():
    a, b = square(512), square(512)
    c, d = square(512), square(512)
    assert us(tile, (16, 16), (32, 32), a, b) == us(tile, (16, 16), (32, 32), c, d)


def test_counting_every_block_does_not_change_the_time():
    a, b = square(512), square(512)
    plain = us(padded, (16, 16), (32, 32), a, b)
    grader.vgpu.options().profile = True
    try:
        assert us(padded, (16, 16), (32, 32), a, b) == pytest.approx(plain, rel=0.02)
    finally:
        grader.vgpu.options().profile = False


def test_a_copy_reaches_the_bandwidth_of_device_memory():
    n = 1 << 24
    a, b = cuda.device_array(n, np.float32), cuda.device_array(n, np.float32)

    @cuda.jit
    def copy(a, b):
        i = cuda.grid(1)
        if i < a.size:
            b[i] = a[i]

    rate = 8 * n / us(copy, (n // 256,), (256,), a, b) / 1e3
    assert 0.7 * 1750 < rate < 1.15 * 1750


def test_pages_of_managed_memory_fault_once_and_prefetching_avoids_it():
    n = 1 << 20
    a, b = cuda.managed_array(n, np.float32), cuda.device_array(n, np.float32)
    a[:] = 1
    before = len(grader.vgpu.spans())
    first = us(spin_copy, (n // 256,), (256,), a, b)
    again = us(spin_copy, (n // 256,), (256,), a, b)
    assert first > 20 * again
    assert sum(s.nbytes for s in grader.vgpu.spans()[before:] if s.kind == "fault") == 4 * n


@cuda.jit
def spin_copy(a, b):
    i = cuda.grid(1)
    b[i] = a[i]


def test_what_is_compiled_ahead_is_what_launches_use():
    from grader.vgpu import precompile
    from grader.vgpu.machine import runtime, schedule
    from grader.vgpu.model import simulate

    precompile.main()
    a, b = square(64), square(64)
    us(rows, (2, 2), (32, 32), a, b)
    assert len(simulate.steps.signatures) == len(schedule.run_grid.signatures) == 1
    assert {"vg_barrier", "vg_cp_async", "vg_mbarrier"} < set(runtime.functions())


def captured(stream, nodes):
    """A graph of so many memsets of a word each, one after the other."""
    at = alloc(4)
    call(cu.cuStreamBeginCapture(stream, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
    for k in range(nodes):
        call(cu.cuMemsetD32Async(at, k, 1, stream))
    return call(cu.cuStreamEndCapture(stream))


def host_us(work) -> tuple[float, object]:
    """Modelled microseconds that a call takes of the host, and what it gives."""
    before = CLOCK.host_us
    result = work()
    return round(CLOCK.host_us - before, 6), result


def test_what_graphs_cost_the_host(device):
    """Per node where it is made, not where it is launched; the first launch after a change takes it to the device."""
    stream = call(cu.cuStreamCreate(1))
    for nodes, published in ((10, 16), (100, 127), (1025, 1526)):
        capture, graph = host_us(lambda n=nodes: captured(stream, n))
        assert capture == pytest.approx(nodes * CAPTURE_NODE_US + 2 * CALL_US + ALLOC_US)
        instantiation, made = host_us(lambda g=graph: call(cu.cuGraphInstantiate(g, 0)))
        assert instantiation == pytest.approx(published, rel=0.15)
        launches = [host_us(lambda m=made: call(cu.cuGraphLaunch(m, stream)))[0] for _ in range(3)]
        assert launches == [round(GRAPH_LAUNCH_US + UPLOAD_NODE_US * nodes, 6), GRAPH_LAUNCH_US, GRAPH_LAUNCH_US]
        update, _ = host_us(lambda m=made, g=graph: call(cu.cuGraphExecUpdate(m, g)))
        assert update < instantiation / 2 or nodes == 10
        upload, _ = host_us(lambda m=made: call(cu.cuGraphUpload(m, stream)))
        assert upload == pytest.approx(CALL_US + UPLOAD_NODE_US * nodes)
        assert host_us(lambda m=made: call(cu.cuGraphLaunch(m, stream)))[0] == GRAPH_LAUNCH_US
        call(cu.cuStreamSynchronize(stream))
        call(cu.cuGraphExecDestroy(made))


def test_nodes_of_a_child_graph_count_as_the_others(device):
    stream = call(cu.cuStreamCreate(1))
    child = captured(stream, 20)
    graph = call(cu.cuGraphCreate(0))
    call(cu.cuGraphAddChildGraphNode(graph, None, 0, child))
    direct, _ = host_us(lambda: call(cu.cuGraphInstantiate(child, 0)))
    inside, _ = host_us(lambda: call(cu.cuGraphInstantiate(graph, 0)))
    assert direct == inside


def test_a_graph_that_is_made_for_every_launch_is_slower_than_one_that_is_made_once(device):
    stream = call(cu.cuStreamCreate(1))

    def once():
        graph = captured(stream, 20)
        made = call(cu.cuGraphInstantiate(graph, 0))
        for _ in range(10):
            call(cu.cuGraphLaunch(made, stream))
        call(cu.cuStreamSynchronize(stream))

    def each_time():
        for _ in range(10):
            graph = captured(stream, 20)
            call(cu.cuGraphLaunch(call(cu.cuGraphInstantiate(graph, 0)), stream))
        call(cu.cuStreamSynchronize(stream))

    assert host_us(each_time)[0] > 1.5 * host_us(once)[0]
