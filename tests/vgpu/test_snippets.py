"""What a course shows of the host's side, as cuda.core, numba and cuda.bindings.driver spell it, runs on the virtual GPU."""

import numpy as np
import pytest
from cuda.bindings import driver as cu
from cuda.core import Device, DeviceMemoryResource, EventOptions, LaunchConfig, StreamOptions, launch
from cuda.core.utils import StridedMemoryView
from driver_support import ADD_ONE, call
from numba import cuda, float32

N, GRID, BLOCK = 1 << 12, 16, 256


@cuda.jit
def kern(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1


@pytest.fixture
def dev() -> Device:
    found = Device(0)
    found.set_current()
    return found


@pytest.fixture
def d_x(dev):
    return cuda.to_device(np.zeros(N, np.float32))


def view(buffer) -> StridedMemoryView:
    return StridedMemoryView.from_buffer(buffer, shape=(N,), dtype=np.dtype(np.float32))


def test_streams_of_every_kind_take_launches(dev, d_x):
    s1 = dev.create_stream(options=StreamOptions(nonblocking=True))
    s2 = dev.create_stream(options=StreamOptions(nonblocking=False, priority=-1))
    n1 = cuda.stream()
    kern[GRID, BLOCK, n1](d_x)
    n1.synchronize()
    kern[GRID, BLOCK, s1](d_x)
    s1.sync()
    for other in (cuda.default_stream(), cuda.legacy_default_stream(), cuda.per_thread_default_stream()):
        kern[GRID, BLOCK, other](d_x)
        other.synchronize()
    kern[GRID, BLOCK, cuda.external_stream(int(s1.handle))](d_x)
    s1.sync()
    assert (s2.priority, s1.is_nonblocking, s2.is_nonblocking) == (-1, True, False)
    assert set(d_x.copy_to_host()) == {6}


def test_the_range_of_stream_priorities(dev):
    least, greatest = call(cu.cuCtxGetStreamPriorityRange())
    assert least == 0 > greatest
    stream = call(cu.cuStreamCreateWithPriority(cu.CUstream_flags.CU_STREAM_NON_BLOCKING, greatest))
    assert call(cu.cuStreamGetPriority(stream)) == greatest


def test_events_of_cuda_core_and_of_numba(dev, d_x):
    s, s2 = dev.create_stream(), dev.create_stream()
    e1, e2 = (dev.create_event(options=EventOptions(timing_enabled=True)) for _ in range(2))
    s.record(e1)
    kern[GRID, BLOCK, s](d_x)
    s.record(e2)
    s2.wait(e2)
    e2.sync()
    assert e2 - e1 > 0
    assert e2.is_done
    a, b = cuda.event(timing=True), cuda.event(timing=True)
    a.record(stream=s)
    kern[GRID, BLOCK, s](d_x)
    b.record(stream=s)
    b.wait(stream=s2)
    b.synchronize()
    assert cuda.event_elapsed_time(a, b) > 0
    assert b.query()


def test_pinned_memory_of_numba_and_of_cuda_core(dev):
    from cuda.core import PinnedMemoryResource, PinnedMemoryResourceOptions

    host, stream = cuda.pinned_array(N, dtype=np.float32), cuda.stream()
    host[:] = 1
    d = cuda.to_device(host, stream=stream)
    kern[GRID, BLOCK, stream](d)
    d.copy_to_host(host, stream=stream)
    stream.synchronize()
    with cuda.pinned(np.ones(N, np.float32)):
        pass
    s = dev.create_stream()
    buffer = PinnedMemoryResource(options=PinnedMemoryResourceOptions(max_size=0)).allocate(4096, stream=s)
    s.sync()
    assert set(host) == {2}
    assert np.from_dlpack(buffer).nbytes == 4096


def test_mapped_memory(dev):
    m = cuda.mapped_array(N, dtype=np.float32)
    m[:] = 0
    kern[GRID, BLOCK](m)
    cuda.synchronize()
    assert m.sum() == N
    x = np.zeros(N, np.float32)
    with cuda.mapped(x) as there:
        kern[GRID, BLOCK](there)
        cuda.synchronize()
    assert x.sum() == N


def test_managed_memory_with_advice_and_prefetch(dev):
    from cuda.core import Host, ManagedMemoryResource, ManagedMemoryResourceOptions

    s = dev.create_stream()
    options = ManagedMemoryResourceOptions(preferred_location=0, preferred_location_type="device")
    buffer = ManagedMemoryResource(options=options).allocate(4 * N, stream=s)
    buffer.read_mostly = True
    buffer.preferred_location = dev
    buffer.accessed_by.add(dev)
    buffer.fill(0, stream=s)
    buffer.prefetch(dev, stream=s)
    kern[GRID, BLOCK, s](view(buffer))
    buffer.prefetch(Host(), stream=s)
    s.sync()
    assert set(np.from_dlpack(buffer).view(np.float32)) == {1}


def test_numbas_managed_memory_with_the_drivers_advice(dev):
    from cuda.core import Host, ManagedBuffer

    a = cuda.managed_array(N, dtype=np.float32, attach_global=True)
    a[:] = 0
    place = cu.CUmemLocation()
    place.type, place.id = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, 0
    call(cu.cuMemAdvise(a.ctypes.data, a.nbytes, cu.CUmem_advise.CU_MEM_ADVISE_SET_PREFERRED_LOCATION, place))
    call(cu.cuMemPrefetchAsync(a.ctypes.data, a.nbytes, place, 0, 0))
    kern[GRID, BLOCK](a)
    buffer = ManagedBuffer.from_handle(a.ctypes.data, a.nbytes, owner=a)
    buffer.prefetch(Host(), stream=dev.default_stream)
    cuda.synchronize()
    assert set(np.asarray(a)) == {1}


def test_stream_ordered_memory_and_its_pool(dev):
    from cuda.core import DeviceMemoryResourceOptions

    s = dev.create_stream()
    b = dev.allocate(4 * N, stream=s)
    pool = DeviceMemoryResource(dev, options=DeviceMemoryResourceOptions(max_size=1 << 28))
    c = pool.allocate(4 * N, stream=s)
    assert pool.attributes.used_mem_current == 4 * N
    assert pool.attributes.reserved_mem_high >= 4 * N
    b.fill(0, stream=s)
    kern[GRID, BLOCK, s](view(b))
    b.copy_to(c, stream=s)
    got = cuda.pinned_array(N, np.float32)
    call(cu.cuMemcpyDtoHAsync(got.ctypes.data, int(c.handle), 4 * N, int(s.handle)))
    b.close(s)
    c.close(s)
    s.sync()
    assert set(got) == {1}


def test_a_graph_is_captured_launched_and_updated(dev, d_x, tmp_path):
    from cuda.core.graph import GraphCompleteOptions

    s, d_y = dev.create_stream(), cuda.to_device(np.zeros(N, np.float32))
    kern[GRID, BLOCK, s](d_x)
    s.sync()
    builder = s.create_graph_builder()
    builder.begin_building(mode="thread_local")
    kern[GRID, BLOCK, builder](d_x)
    kern[GRID, BLOCK, builder.stream](d_x)
    graph = builder.end_building().complete(options=GraphCompleteOptions(upload_stream=s))
    graph.launch(s)
    s.sync()
    other = s.create_graph_builder()
    other.begin_building()
    kern[GRID, BLOCK, other](d_y)
    kern[GRID, BLOCK, other](d_y)
    other.end_building()
    graph.update(other)
    graph.launch(s)
    s.sync()
    assert (set(d_x.copy_to_host()), set(d_y.copy_to_host())) == ({3}, {2})
    builder.debug_dot_print(str(tmp_path / "g.dot"))
    assert "digraph" in (tmp_path / "g.dot").read_text()


def test_a_graph_forks_and_joins_and_has_nodes_that_are_changed(dev, d_x):
    from cuda.core.graph import GraphBuilder, GraphDefinition

    s, d_y = dev.create_stream(), cuda.to_device(np.zeros(N, np.float32))
    kern[GRID, BLOCK](d_x)
    cuda.synchronize()
    builder = dev.create_graph_builder()
    builder.begin_building()
    left, right = builder.split(2)
    kern[GRID, BLOCK, left](d_x)
    kern[GRID, BLOCK, right](d_y)
    builder = GraphBuilder.join(left, right)
    builder.end_building()
    builder.complete().launch(s)
    s.sync()
    assert (set(d_x.copy_to_host()), set(d_y.copy_to_host())) == ({2}, {1})

    from cuda.core import ObjectCode

    kernel = ObjectCode.from_ptx(ADD_ONE).get_kernel("add_one")
    numbers = cuda.to_device(np.zeros(64, np.uint32))
    place = numbers.__cuda_array_interface__["data"][0]
    definition, config = GraphDefinition(), LaunchConfig(grid=1, block=32)
    n1 = definition.launch(config, kernel, place, np.uint32(64))
    n2 = n1.launch(config, kernel, place, np.uint32(64))
    run = definition.instantiate()
    run[n1].update(config=LaunchConfig(grid=2, block=32), kernel=kernel, args=(place, np.uint32(64)))
    run[n2].disable()
    run.launch(s)
    s.sync()
    assert set(numbers.copy_to_host()) == {1}


def test_peers(dev):
    other = Device(1)
    assert dev.can_access_peer(other)
    other.set_current()
    s1 = other.create_stream()
    dev.set_current()
    s = dev.create_stream()
    pool = DeviceMemoryResource(dev)
    pool.peer_accessible_by = [1]
    here, there = pool.allocate(4096, stream=s), DeviceMemoryResource(other).allocate(4096, stream=s1)
    s1.sync()
    here.fill(7, stream=s)
    here.copy_to(there, stream=s)
    s.sync()
    got = np.empty(4096, np.uint8)
    call(cu.cuMemcpyDtoH(got.ctypes.data, int(there.handle), 4096))
    assert set(got) == {7}
    assert call(cu.cuDeviceCanAccessPeer(0, 1)) == 1


def test_green_contexts_take_launches(dev, d_x):
    from cuda.core import ContextOptions, SMResourceOptions

    sm = dev.resources.sm
    groups, _rest = sm.split(SMResourceOptions(count=(32, 16)))
    plan, _ = sm.split(SMResourceOptions(count=32), dry_run=True)
    context = dev.create_context(options=ContextOptions(resources=[groups[0]]))
    stream = context.create_stream(options=StreamOptions(priority=-1))
    assert context.is_green
    assert stream.resources.sm.sm_count == plan[0].sm_count == 32
    kern[GRID, BLOCK, stream](d_x)
    stream.sync()
    assert set(d_x.copy_to_host()) == {1}
    stream.close()
    context.close()


def test_green_contexts_of_the_driver(dev):
    device = call(cu.cuDeviceGet(0))
    resource = call(cu.cuDeviceGetDevResource(device, cu.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM))
    groups, n, _rest = call(cu.cuDevSmResourceSplitByCount(1, resource, 0, 16))
    description = call(cu.cuDevResourceGenerateDesc(groups, 1))
    flags = cu.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM
    context = call(cu.cuGreenCtxCreate(description, device, flags))
    call(cu.cuGreenCtxStreamCreate(context, cu.CUstream_flags.CU_STREAM_NON_BLOCKING, 0))
    assert (n, groups[0].sm.smCount) == (1, 16)
    call(cu.cuGreenCtxDestroy(context))


def test_more_than_48_kib_of_dynamic_shared_memory_for_a_kernel_of_numbas(dev, d_x):
    @cuda.jit
    def reaches(x):
        room = cuda.shared.array(0, float32)
        room[24000 + cuda.threadIdx.x] = x[cuda.threadIdx.x]
        x[cuda.threadIdx.x] = room[24000 + cuda.threadIdx.x] + 1

    kernel = reaches.compile((float32[::1],))
    function = kernel.library.get_cufunc()
    wanted = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    call(cu.cuKernelSetAttribute(wanted, 98304, function.kernel.handle, 0))
    assert function.kernel.occupancy.max_active_blocks_per_multiprocessor(256, 98304) == 1
    reaches[1, 256, 0, 98304](d_x)
    assert d_x.copy_to_host()[:257].sum() == 256


def test_a_cooperative_launch_of_a_kernel_of_numbas_through_cuda_core(dev, d_x):
    kernel = kern.compile((float32[::1],)).library.get_cufunc().kernel
    s = dev.create_stream()
    config = LaunchConfig(grid=GRID, block=BLOCK, is_cooperative=True)
    place = d_x.__cuda_array_interface__["data"][0]
    launch(s, config, kernel, 0, 0, N, 4, place, N, 4)  # numba passes an array as seven words
    s.sync()
    assert set(d_x.copy_to_host()) == {1}


def test_the_runtime_api_says_what_to_use(capfd, monkeypatch):
    monkeypatch.setattr("grader.vgpu.driver.abi.SAID", {})  # each sentence is said once a process
    runtime = pytest.importorskip("cuda.bindings.runtime")
    error, *_ = runtime.cudaMalloc(16)
    assert error != runtime.cudaError_t.cudaSuccess
    assert "use cuda.bindings.driver or cuda.core" in capfd.readouterr().err
