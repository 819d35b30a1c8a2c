"""Unmodified numba-cuda and cuda.core programs on the virtual GPU."""

import numpy as np
import pytest
from cuda.core import (
    Device,
    DeviceMemoryResource,
    DeviceMemoryResourceOptions,
    EventOptions,
    Host,
    LaunchConfig,
    ManagedMemoryResource,
    ManagedMemoryResourceOptions,
    ObjectCode,
    Program,
    StreamOptions,
    launch,
)
from cuda.core.graph import GraphBuilder, GraphDefinition
from cuda.core.utils import StridedMemoryView
from numba import cuda, float32, int32

import grader.vgpu
from grader.vgpu import numba_adapter

N = 1000


@cuda.jit
def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]


@cuda.jit
def increment(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1


@pytest.fixture
def dev():
    device = Device(0)
    device.set_current()
    return device


@pytest.fixture
def d_x(dev):
    return cuda.to_device(np.zeros(N, np.float32))


def test_device_arrays(dev):
    x, y = np.arange(N, dtype=np.float32), np.ones(N, np.float32)
    d_x, d_y = cuda.to_device(x), cuda.to_device(y)
    saxpy[4, 256](np.float32(2), d_x, d_y)
    np.testing.assert_array_equal(d_y.copy_to_host(), 2 * x + 1)
    part = d_x[10:20]
    assert part.copy_to_host().tolist() == x[10:20].tolist()


def test_host_arrays_are_copied_there_and_back(dev):
    y = np.ones(N, np.float32)
    saxpy[4, 256](np.float32(2), np.ones(N, np.float32), y)
    assert y.tolist() == [3] * N


def test_static_and_dynamic_shared_memory(dev):
    @cuda.jit
    def reverse(x):
        static, dynamic = cuda.shared.array(64, float32), cuda.shared.array(0, float32)
        t = cuda.threadIdx.x
        static[t] = x[t]
        cuda.syncthreads()
        dynamic[t] = static[63 - t]
        cuda.syncthreads()
        x[t] = dynamic[t]

    x = np.arange(64, dtype=np.float32)
    d = cuda.to_device(x)
    reverse[1, 64, 0, 64 * 4](d)
    assert d.copy_to_host().tolist() == x[::-1].tolist()


def test_dynamic_shared_memory_above_48_kb_after_opting_in(dev):
    from cuda.bindings import driver as cu
    from driver_support import call

    @cuda.jit
    def fill(x):
        buffer = cuda.shared.array(0, int32)
        buffer[20000 + cuda.threadIdx.x] = cuda.threadIdx.x
        cuda.syncthreads()
        x[cuda.threadIdx.x] = buffer[20000 + 31 - cuda.threadIdx.x]

    d = cuda.to_device(np.zeros(32, np.int32))
    compiled = fill.compile((cuda.typeof(d) if hasattr(cuda, "typeof") else int32[::1],))
    function = compiled.library.get_cufunc()
    attribute = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    call(cu.cuKernelSetAttribute(attribute, 98304, function.kernel.handle, 0))
    assert function.kernel.occupancy.max_active_blocks_per_multiprocessor(256, 98304) == 1
    fill[1, 32, 0, 98304](d)
    assert d.copy_to_host().tolist() == list(range(31, -1, -1))


def test_a_cooperative_grid_synchronises(dev):
    @cuda.jit
    def both(x, y):
        i = cuda.grid(1)
        x[i] = i
        cuda.cg.this_grid().sync()
        y[i] = x[x.size - 1 - i]

    x, y = cuda.device_array(128, np.int32), cuda.device_array(128, np.int32)
    both[4, 32](x, y)
    assert y.copy_to_host().tolist() == list(range(127, -1, -1))


def test_pinned_mapped_and_managed_arrays(dev):
    pinned = cuda.pinned_array(N, np.float32)
    pinned[:] = 1
    stream = cuda.stream()
    d = cuda.to_device(pinned, stream=stream)
    increment[4, 256, stream](d)
    d.copy_to_host(pinned, stream=stream)
    stream.synchronize()
    assert pinned.tolist() == [2] * N

    for array in (cuda.mapped_array(N, np.float32), cuda.managed_array(N, np.float32)):
        array[:] = 1
        increment[4, 256](array)
        cuda.synchronize()
        assert np.asarray(array).tolist() == [2] * N

    mine = np.ones(N, np.float32)
    with cuda.mapped(mine) as mapped:
        increment[4, 256](mapped)
        cuda.synchronize()
    assert mine.tolist() == [2] * N
    with cuda.pinned(mine):
        assert cuda.to_device(mine).copy_to_host().tolist() == [2] * N


def test_memory_info_and_attributes(dev):
    free, total = cuda.current_context().get_memory_info()
    assert 0 < free <= total
    assert cuda.get_current_device().compute_capability == (8, 0)
    assert cuda.get_current_device().MULTIPROCESSOR_COUNT == 108
    kernel = saxpy.compile("void(float32, float32[::1], float32[::1])")
    assert kernel.regs_per_thread > 0
    assert kernel.max_threads_per_block == 1024


def test_the_register_limit_of_a_kernel_is_reported(dev):
    @cuda.jit("void(float64[::1])", max_registers=24)
    def limited(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] = x[i] / (x[i] + 1.0) + x[i] ** 3

    assert next(iter(limited.overloads.values())).regs_per_thread <= 24


def test_one_source_compiled_twice_is_cached_once_with_variables_of_its_own(dev):
    """numba gives each its own mangled name, and the error flag of debug mode is named after the kernel."""

    def make():
        @cuda.jit(debug=True, opt=False)
        def fails(x):
            if x[cuda.threadIdx.x] > 1:
                raise ValueError("too large")

        return fails

    for _ in range(2):
        kernel = make()
        kernel[1, 2](cuda.to_device(np.array([0.0, 1.0])))
        with pytest.raises(ValueError, match="too large"):
            kernel[1, 2](cuda.to_device(np.array([1.0, 2.0])))


def test_events_time_and_order(dev, d_x):
    start, end = cuda.event(), cuda.event()
    start.record()
    increment[4, 256](d_x)
    end.record()
    assert not end.query()
    end.synchronize()
    assert end.query()
    assert 0 < cuda.event_elapsed_time(start, end) < 1


def test_lines_of_the_source_reach_the_ptx(dev):
    increment.compile((float32[::1],))
    ptx = next(iter(increment.overloads.values())).library.get_cubin().code.decode()
    assert ".loc" in ptx
    assert "test_driver_numba.py" in ptx


def test_debug_kernels_raise_their_exceptions(dev):
    @cuda.jit(debug=True, opt=False)
    def fail(x):
        if cuda.grid(1) == 3:
            raise ValueError("three")
        x[cuda.grid(1)] = 1

    with pytest.raises(ValueError, match="three"):
        fail[1, 32](cuda.device_array(32, np.float32))


def test_device_functions_and_printing(dev, capfd):
    @cuda.jit(device=True)
    def square(x):
        return x * x

    @cuda.jit
    def show(x):
        x[0] = square(x[0])
        print("now", x[0])

    d = cuda.to_device(np.array([3], np.int32))
    show[1, 1](d)
    assert capfd.readouterr().out == ""
    cuda.synchronize()
    assert capfd.readouterr().out == "now 9\n"


def test_two_devices(dev):
    with cuda.gpus[1]:
        d = cuda.to_device(np.ones(N, np.float32))
        increment[4, 256](d)
        assert d.copy_to_host().tolist() == [2] * N


def test_sass_is_what_ptxas_makes_of_the_ptx(dev):
    from cuda import pathfinder

    if pathfinder.find_nvidia_binary_utility("nvdisasm") is None:
        pytest.skip("nvdisasm is not installed")
    assert "EXIT" in increment.inspect_sass(increment.signatures[0] if increment.signatures else (float32[::1],))


# ---- cuda.core


def test_core_streams_and_events(dev, d_x):
    first = dev.create_stream(options=StreamOptions(nonblocking=True))
    second = dev.create_stream(options=StreamOptions(nonblocking=False, priority=-1))
    assert (first.is_nonblocking, second.is_nonblocking, second.priority) == (True, False, -1)
    timed = EventOptions(timing_enabled=True)
    begin, end = dev.create_event(options=timed), dev.create_event(options=timed)
    first.record(begin)
    increment[4, 256, first](d_x)
    first.record(end)
    second.wait(end)
    increment[4, 256, second](d_x)
    second.sync()
    assert end.is_done
    assert end - begin > 0
    assert d_x.copy_to_host()[0] == 2


def test_core_compiles_c_and_launches_it(dev):
    source = 'extern "C" __global__ void twice(float* x, int n) { int i = threadIdx.x; if (i < n) x[i] *= 2; }'
    kernel = Program(source, "c++", options={"arch": "sm_80"}).compile("ptx").get_kernel("twice")
    stream = dev.create_stream()
    d = cuda.to_device(np.arange(8, dtype=np.float32))
    launch(stream, LaunchConfig(grid=1, block=32), kernel, d.device_ctypes_pointer.value, 8)
    stream.sync()
    assert d.copy_to_host().tolist() == [0, 2, 4, 6, 8, 10, 12, 14]


def test_machine_code_is_refused_with_a_sentence(dev, capfd, monkeypatch):
    monkeypatch.setattr("grader.vgpu.driver.abi.SAID", {})  # each sentence is said once a process
    source = 'extern "C" __global__ void nothing() {}'
    code = Program(source, "c++", options={"arch": "sm_80"}).compile("cubin")
    with pytest.raises(Exception, match="NO_BINARY_FOR_GPU"):
        code.get_kernel("nothing")
    assert "compile to PTX instead" in capfd.readouterr().err


def test_core_buffers_from_pools(dev):
    stream = dev.create_stream()
    resource = DeviceMemoryResource(dev, options=DeviceMemoryResourceOptions(max_size=1 << 28))
    a, b = dev.allocate(4 * N, stream=stream), resource.allocate(4 * N, stream=stream)
    a.fill(0, stream=stream)
    x = StridedMemoryView.from_buffer(a, shape=(N,), dtype=np.dtype(np.float32))
    increment[4, 256, stream](x)
    a.copy_to(b, stream=stream)
    host = np.zeros(N, np.float32)
    y = StridedMemoryView.from_buffer(b, shape=(N,), dtype=np.dtype(np.float32))
    assert resource.attributes.used_mem_current == 4 * N
    stream.sync()
    cuda.as_cuda_array(cuda.to_device(host))
    increment[4, 256, stream](y)
    stream.sync()
    a.close(stream)
    b.close(stream)
    stream.sync()
    assert resource.attributes.used_mem_current == 0
    resource.close()


def test_core_managed_memory(dev):
    stream = dev.create_stream()
    options = ManagedMemoryResourceOptions(preferred_location=0, preferred_location_type="device")
    buffer = ManagedMemoryResource(options=options).allocate(4096, stream=stream)
    buffer.read_mostly = True
    buffer.preferred_location = dev
    buffer.accessed_by.add(dev)
    buffer.prefetch(dev, stream=stream)
    buffer.prefetch(Host(), stream=stream)
    stream.sync()
    assert buffer.read_mostly
    buffer.discard(stream=stream)
    stream.sync()


def test_core_graphs_capture_fork_join_and_update(dev, d_x):
    other = cuda.to_device(np.zeros(N, np.float32))
    increment[4, 256](d_x)
    stream = dev.create_stream()
    stream.sync()
    cuda.synchronize()
    builder = dev.create_graph_builder()
    builder.begin_building()
    increment[4, 256, builder](d_x)
    left, right = builder.split(2)
    increment[4, 256, left](d_x)
    increment[4, 256, right](other)
    builder = GraphBuilder.join(left, right)
    graph = builder.end_building().complete()
    for _ in range(2):
        graph.launch(stream)
    stream.sync()
    assert (d_x.copy_to_host()[0], other.copy_to_host()[0]) == (5, 2)

    same, changed = stream.create_graph_builder(), stream.create_graph_builder()
    for made, target in ((same, d_x), (changed, other)):
        made.begin_building()
        increment[4, 256, made](target)
        made.end_building()
    graph = same.complete()
    graph.update(changed)
    graph.launch(stream)
    stream.sync()
    assert (d_x.copy_to_host()[0], other.copy_to_host()[0]) == (5, 3)


def test_core_explicit_graph_nodes(dev, d_x):
    compiled = increment.compile((float32[::1],))
    function = compiled.library.get_cufunc()
    kernel = ObjectCode.from_ptx(compiled.library.get_cubin().code).get_kernel(function.name)
    definition, config = GraphDefinition(), LaunchConfig(grid=4, block=256)
    arguments = (0, 0, N, 4, d_x.device_ctypes_pointer.value, N, 4)
    first = definition.launch(config, kernel, *arguments)
    second = first.launch(config, kernel, *arguments)
    graph = definition.instantiate()
    graph[first].update(config=LaunchConfig(grid=1, block=256), kernel=kernel, args=arguments)
    graph[second].disable()
    stream = dev.create_stream()
    graph.launch(stream)
    stream.sync()
    assert d_x.copy_to_host().tolist() == [1] * 256 + [0] * (N - 256)


def test_findings_are_kept_once_a_cause(dev):
    @cuda.jit
    def racy(x):
        tile = cuda.shared.array(64, float32)
        t = cuda.threadIdx.x
        tile[t] = x[t]
        x[t] = tile[63 - t]

    before = len(grader.vgpu.findings())
    d = cuda.to_device(np.zeros(64, np.float32))
    racy[1, 64](d)
    cuda.synchronize()
    found = grader.vgpu.findings()[before:]
    assert "racecheck" in {finding.tool for finding in found}
    assert {finding.file for finding in found} == {__file__}
    racy[1, 64](d)
    cuda.synchronize()
    assert len(grader.vgpu.findings()) == before + len(found)


def test_debug_kernels_with_device_functions_are_put_together(dev):
    @cuda.jit(device=True, debug=True, opt=False)
    def half(x):
        return x / 2

    @cuda.jit(debug=True, opt=False)
    def halve(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] = half(x[i])

    d = cuda.to_device(np.full(8, 6, np.float32))
    halve[1, 32](d)
    assert d.copy_to_host().tolist() == [3] * 8


def test_lines_of_inlined_functions_stay_in_ptx_that_is_put_together():
    loc = b".loc 1 51 1, function_name $L__info_string0, inlined_at 1 178 1\n"
    one = (
        b'.version 8.0\n.target sm_80\n.file 1 "a.py"\n'
        + loc
        + b".section .debug_str\n{\n$L__info_string0:\n.b8 0\n}\n"
    )
    merged = numba_adapter._merge([one, b'.version 8.0\n.target sm_80\n.file 1 "b.cu"\n'])
    assert b".loc 1 51 1, function_name $L__merged_name, inlined_at 1 178 1" in merged
    assert merged.count(b".debug_str") == 1
    assert merged.index(b"$L__merged_name:") > merged.index(b".debug_str")
