"""Stream capture, explicit graphs, updates."""

import ctypes
import itertools

import numpy as np
import pytest
from cuda.bindings import driver as cu
from driver_support import DriverError, alloc, call, code, download, event, kernel, launch, pinned, stream, upload

GLOBAL, THREAD_LOCAL, RELAXED = (cu.CUstreamCaptureMode(k) for k in range(3))


@pytest.fixture
def add(device):
    return kernel()


@pytest.fixture
def data(device):
    return upload(np.zeros(4, np.uint32))


def capture(s, body, mode=RELAXED):
    call(cu.cuStreamBeginCapture(s, mode))
    body()
    return call(cu.cuStreamEndCapture(s))


def instantiate(graph):
    return call(cu.cuGraphInstantiate(graph, 0))


def count(function, *args) -> int:
    return call(function(*args))[-1]


def test_captured_work_runs_at_each_launch_and_not_before(add, data):
    s = stream()
    graph = capture(s, lambda: [call(launch(add, data, np.uint32(4), stream=s)) for _ in range(2)])
    made = instantiate(graph)
    assert download(data, 4).tolist() == [0] * 4
    for _ in range(3):
        call(cu.cuGraphLaunch(made, s))
    call(cu.cuStreamSynchronize(s))
    assert download(data, 4).tolist() == [6] * 4


def test_a_capture_forks_and_joins_through_events(add, data):
    s, side, e, back = stream(), stream(), event(False), event(False)
    other = upload(np.zeros(4, np.uint32))

    def body():
        call(launch(add, data, np.uint32(4), stream=s))
        call(cu.cuEventRecord(e, s))
        call(cu.cuStreamWaitEvent(side, e, 0))
        call(launch(add, other, np.uint32(4), stream=side))
        call(launch(add, data, np.uint32(4), stream=s))
        call(cu.cuEventRecord(back, side))
        call(cu.cuStreamWaitEvent(s, back, 0))
        call(launch(add, other, np.uint32(4), stream=s))

    graph = capture(s, body)
    assert count(cu.cuGraphGetNodes, graph) == 4
    assert count(cu.cuGraphGetRootNodes, graph) == 1
    assert call(cu.cuGraphGetEdges(graph))[-1] == 4
    call(cu.cuGraphLaunch(instantiate(graph), s))
    call(cu.cuStreamSynchronize(s))
    assert (download(data, 4).tolist(), download(other, 4).tolist()) == ([2] * 4, [2] * 4)


def test_a_stream_that_was_not_joined_back_spoils_the_capture(add, data):
    s, side, e = stream(), stream(), event(False)
    call(cu.cuStreamBeginCapture(s, RELAXED))
    call(cu.cuEventRecord(e, s))
    call(cu.cuStreamWaitEvent(side, e, 0))
    call(launch(add, data, np.uint32(4), stream=side))
    assert code(cu.cuStreamEndCapture(s)) == "STREAM_CAPTURE_UNJOINED"
    assert code(cu.cuStreamQuery(side)) == "SUCCESS"  # it captures no more


def test_waiting_for_a_capturing_stream_ends_the_capture(add, data):
    s = stream()
    call(cu.cuStreamBeginCapture(s, GLOBAL))
    assert code(cu.cuStreamSynchronize(s)) == "STREAM_CAPTURE_UNSUPPORTED"
    assert code(launch(add, data, np.uint32(4), stream=s)) == "STREAM_CAPTURE_INVALIDATED"
    assert code(cu.cuStreamEndCapture(s)) == "STREAM_CAPTURE_INVALIDATED"


@pytest.mark.parametrize(
    ("mode", "what"),
    [(GLOBAL, "STREAM_CAPTURE_UNSUPPORTED"), (THREAD_LOCAL, "STREAM_CAPTURE_UNSUPPORTED"), (RELAXED, "SUCCESS")],
)
def test_allocating_during_a_capture(device, mode, what):
    s = stream()
    call(cu.cuStreamBeginCapture(s, mode))
    assert code(cu.cuMemAlloc(16)) == what
    cu.cuStreamEndCapture(s)


def test_the_legacy_stream_would_have_to_wait_for_a_capturing_blocking_stream(device, data):
    s = stream(nonblocking=False)
    call(cu.cuStreamBeginCapture(s, THREAD_LOCAL))
    assert code(cu.cuMemsetD32Async(data, 1, 4, 0)) == "STREAM_CAPTURE_IMPLICIT"
    assert code(cu.cuStreamEndCapture(s)) == "STREAM_CAPTURE_INVALIDATED"


def test_a_dependency_on_work_outside_of_the_capture(device):
    s, e = stream(), event(False)
    call(cu.cuEventRecord(e, 0))
    call(cu.cuStreamBeginCapture(s, RELAXED))
    assert code(cu.cuStreamWaitEvent(s, e, 0)) == "STREAM_CAPTURE_ISOLATION"
    cu.cuStreamEndCapture(s)


def test_an_event_of_a_capture_cannot_be_waited_for_by_the_host(device):
    s, e = stream(), event()
    call(cu.cuStreamBeginCapture(s, RELAXED))
    call(cu.cuEventRecord(e, s))
    assert code(cu.cuEventQuery(e)) == "CAPTURED_EVENT"
    call(cu.cuStreamEndCapture(s))


def kernel_params(function, address, n, grid=1):
    import ctypes

    params = cu.CUDA_KERNEL_NODE_PARAMS()
    params.func = function
    params.gridDimX, params.gridDimY, params.gridDimZ = grid, 1, 1
    params.blockDimX, params.blockDimY, params.blockDimZ = 32, 1, 1
    params.kernelParams = ((address, n), (ctypes.c_uint64, ctypes.c_uint32))
    return params


def test_explicit_nodes_run_in_the_order_of_their_edges(add, data):
    graph = call(cu.cuGraphCreate(0))
    fill = cu.CUDA_MEMSET_NODE_PARAMS()
    fill.dst, fill.value, fill.elementSize, fill.width, fill.height = data, 5, 4, 4, 1
    context = call(cu.cuCtxGetCurrent())
    last = call(cu.cuGraphAddKernelNode(graph, None, 0, kernel_params(add, data, 4)))
    first = call(cu.cuGraphAddMemsetNode(graph, None, 0, fill, context))
    call(cu.cuGraphAddDependencies(graph, [first], [last], None, 1))
    s = stream()
    call(cu.cuGraphLaunch(instantiate(graph), s))
    call(cu.cuStreamSynchronize(s))
    assert download(data, 4).tolist() == [6] * 4
    assert call(cu.cuGraphNodeGetType(first)) == cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_MEMSET


def test_a_cycle_cannot_be_instantiated(device):
    graph = call(cu.cuGraphCreate(0))
    a = call(cu.cuGraphAddEmptyNode(graph, None, 0))
    b = call(cu.cuGraphAddEmptyNode(graph, [a], 1))
    call(cu.cuGraphAddDependencies(graph, [b], [a], None, 1))
    with pytest.raises(DriverError, match="INVALID_VALUE"):
        instantiate(graph)


def test_an_exec_node_takes_new_parameters_and_can_be_switched_off(add, data):
    other = upload(np.zeros(4, np.uint32))
    graph = call(cu.cuGraphCreate(0))
    node = call(cu.cuGraphAddKernelNode(graph, None, 0, kernel_params(add, data, 4)))
    made, s = instantiate(graph), stream()
    call(cu.cuGraphExecKernelNodeSetParams(made, node, kernel_params(add, other, 2)))
    call(cu.cuGraphLaunch(made, s))
    call(cu.cuGraphNodeSetEnabled(made, node, 0))
    call(cu.cuGraphLaunch(made, s))
    assert call(cu.cuGraphNodeGetEnabled(made, node)) == 0
    call(cu.cuStreamSynchronize(s))
    assert (download(data, 4).tolist(), download(other, 4).tolist()) == ([0] * 4, [1, 1, 0, 0])


def test_a_whole_update_keeps_the_shape_or_fails(add, data):
    other, s = upload(np.zeros(4, np.uint32)), stream()
    made = instantiate(capture(s, lambda: call(launch(add, data, np.uint32(4), stream=s))))
    call(cu.cuGraphExecUpdate(made, capture(s, lambda: call(launch(add, other, np.uint32(4), stream=s)))))
    call(cu.cuGraphLaunch(made, s))
    call(cu.cuStreamSynchronize(s))
    assert (download(data, 4).tolist(), download(other, 4).tolist()) == ([0] * 4, [1] * 4)
    longer = capture(s, lambda: [call(launch(add, other, np.uint32(4), stream=s)) for _ in range(2)])
    assert code(cu.cuGraphExecUpdate(made, longer)) == "GRAPH_EXEC_UPDATE_FAILURE"


def test_child_graphs_and_clones(add, data):
    s = stream()
    child = capture(s, lambda: call(launch(add, data, np.uint32(4), stream=s)))
    graph = call(cu.cuGraphCreate(0))
    node = call(cu.cuGraphAddChildGraphNode(graph, None, 0, child))
    call(cu.cuGraphAddChildGraphNode(graph, [node], 1, child))
    clone = call(cu.cuGraphClone(graph))
    twin = call(cu.cuGraphNodeFindInClone(node, clone))
    assert int(twin) != int(node)
    call(cu.cuGraphLaunch(instantiate(clone), s))
    call(cu.cuStreamSynchronize(s))
    assert download(data, 4).tolist() == [2] * 4


def test_a_graph_costs_less_than_its_launches(add, data):
    s, a, b = stream(), event(), event()

    def many():
        for _ in range(20):
            call(launch(add, data, np.uint32(4), stream=s))

    def timed(body):
        call(cu.cuEventRecord(a, s))
        body()
        call(cu.cuEventRecord(b, s))
        call(cu.cuEventSynchronize(b))
        return call(cu.cuEventElapsedTime(a, b))

    made = instantiate(capture(s, many))
    assert timed(lambda: call(cu.cuGraphLaunch(made, s))) < timed(many)


def test_memory_nodes_have_an_address_from_the_start(device):
    s, h = stream(), pinned(4)
    call(cu.cuStreamBeginCapture(s, RELAXED))
    d = call(cu.cuMemAllocAsync(16, s))
    call(cu.cuMemsetD32Async(d, 3, 4, s))
    call(cu.cuMemcpyDtoHAsync(h.ctypes.data, d, 16, s))
    call(cu.cuMemFreeAsync(d, s))
    made = instantiate(call(cu.cuStreamEndCapture(s)))
    for _ in range(2):
        h[:] = 0
        call(cu.cuGraphLaunch(made, s))
        call(cu.cuStreamSynchronize(s))
        assert h.tolist() == [3] * 4


def test_dot_print(device, tmp_path, data):
    s = stream()
    graph = capture(s, lambda: call(cu.cuMemsetD32Async(data, 1, 4, s)))
    call(cu.cuGraphDebugDotPrint(graph, str(tmp_path / "g.dot").encode(), 0))
    assert "set" in (tmp_path / "g.dot").read_text()
    assert alloc(4)


# --- user objects ------------------------------------------------------------------------------------------------------


class Kept:
    """Data with a destructor, as a user object; the references of its creator go to the first graph."""

    def __init__(self, references: int = 1):
        self.destroyed = 0
        self._destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._destroy)
        destroy = ctypes.cast(self._destructor, ctypes.c_void_p).value
        flag = cu.CUuserObject_flags.CU_USER_OBJECT_NO_DESTRUCTOR_SYNC
        self.handle = call(cu.cuUserObjectCreate(1, cu.CUhostFn(destroy), references, flag))

    def _destroy(self, data):
        assert data == 1
        self.destroyed += 1

    def move_to(self, graph, count: int = 1):
        call(
            cu.cuGraphRetainUserObject(graph, self.handle, count, cu.CUuserObjectRetain_flags.CU_GRAPH_USER_OBJECT_MOVE)
        )


def test_a_user_object_lives_as_long_as_a_graph_that_has_it(add, data):
    kept, s = Kept(), stream()
    graph = capture(s, lambda: call(launch(add, data, np.uint32(4), stream=s)))
    kept.move_to(graph)
    made, clone = instantiate(graph), call(cu.cuGraphClone(graph))
    call(cu.cuGraphDestroy(graph))
    call(cu.cuGraphExecDestroy(made))
    assert kept.destroyed == 0
    call(cu.cuGraphDestroy(clone))
    assert kept.destroyed == 1


def test_what_a_graph_has_given_up_it_does_not_give_up_again(device):
    kept, graph = Kept(), call(cu.cuGraphCreate(0))
    kept.move_to(graph)
    call(cu.cuGraphReleaseUserObject(graph, kept.handle, 1))
    assert kept.destroyed == 1
    call(cu.cuGraphDestroy(graph))
    assert kept.destroyed == 1


def test_references_of_one_graph_add_up(device):
    kept, graph = Kept(references=3), call(cu.cuGraphCreate(0))
    kept.move_to(graph)
    kept.move_to(graph, 2)
    for count in (0, 4):
        with pytest.raises(DriverError, match="INVALID_VALUE"):
            call(cu.cuGraphReleaseUserObject(graph, kept.handle, count))
    call(cu.cuGraphReleaseUserObject(graph, kept.handle, 2))
    assert kept.destroyed == 0
    call(cu.cuGraphDestroy(graph))
    assert kept.destroyed == 1


def test_a_child_of_a_child_keeps_its_user_objects(device):
    kept = Kept()
    graphs = [call(cu.cuGraphCreate(0)) for _ in range(3)]
    kept.move_to(graphs[0])
    for inner, outer in itertools.pairwise(graphs):
        call(cu.cuGraphAddChildGraphNode(outer, None, 0, inner))
    made = instantiate(graphs[2])
    for graph in reversed(graphs):
        call(cu.cuGraphDestroy(graph))
    assert kept.destroyed == 0
    call(cu.cuGraphExecDestroy(made))
    assert kept.destroyed == 1


def test_an_update_gives_up_what_a_former_child_kept(device):
    kept, inner = [Kept(), Kept()], [call(cu.cuGraphCreate(0)) for _ in range(2)]
    graph = call(cu.cuGraphCreate(0))
    for k, g in zip(kept, inner, strict=True):
        k.move_to(g)
    node = call(cu.cuGraphAddChildGraphNode(graph, None, 0, inner[0]))
    made = instantiate(graph)
    call(cu.cuGraphExecChildGraphNodeSetParams(made, node, inner[1]))
    for g in (graph, *inner):
        call(cu.cuGraphDestroy(g))
    assert [k.destroyed for k in kept] == [0, 0]  # a launch may still have the former child
    call(cu.cuGraphExecDestroy(made))
    assert [k.destroyed for k in kept] == [1, 1]


def test_a_graph_leaves_no_handle_behind(add, data):
    from grader.vgpu.driver.state import driver

    def one_round():
        s = stream()
        inner = capture(s, lambda: call(launch(add, data, np.uint32(4), stream=s)))
        graph = call(cu.cuGraphCreate(0))
        call(cu.cuGraphAddChildGraphNode(graph, None, 0, inner))
        outer = call(cu.cuGraphCreate(0))
        call(cu.cuGraphAddChildGraphNode(outer, None, 0, graph))
        made = instantiate(outer)
        for _ in range(3):
            call(cu.cuGraphLaunch(made, s))
        assert count(cu.cuGraphGetNodes, outer, 0) == 1
        call(cu.cuGraphExecUpdate(made, outer))
        call(cu.cuStreamSynchronize(s))
        call(cu.cuGraphExecDestroy(made))
        for g in (outer, graph, inner):
            call(cu.cuGraphDestroy(g))
        call(cu.cuStreamDestroy(s))

    one_round()
    before = len(driver.handles)
    one_round()
    assert len(driver.handles) == before
