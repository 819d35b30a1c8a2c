"""Graph Management: adding nodes one by one, and reading and changing their parameters."""

from __future__ import annotations

import ctypes

from grader.vgpu.driver import errors
from grader.vgpu.driver.abi import entry, out, ptr, size, u64
from grader.vgpu.driver.clock import CAPTURE_NODE_US, CLOCK
from grader.vgpu.driver.errors import CudaError
from grader.vgpu.driver.exec import ChildGraph
from grader.vgpu.driver.graph import Node, handles_at
from grader.vgpu.driver.launch import arguments, check
from grader.vgpu.driver.memory import allocate
from grader.vgpu.driver.pool import AllocNode, FreeNode
from grader.vgpu.driver.state import EVENT, EXEC, GRAPH, KERNEL, NODE, Context
from grader.vgpu.driver.structs import (
    GraphNodeParams,
    HostNodeParams,
    KernelNodeParams,
    MemAllocNodeParams,
    Memcpy3D,
    MemsetNodeParams,
)
from grader.vgpu.driver.transfer import copies_3d, make_set
from grader.vgpu.driver.work import Copy, EventRecord, EventWait, HostFunction, Launch, Set, Work


def kernel_work(ctx: Context, params: KernelNodeParams, previous: Launch | None = None) -> Launch:
    """A launch from CUDA_KERNEL_NODE_PARAMS. Attributes of the node that it replaces stay."""
    kernel = KERNEL.convert(params.func or params.kern, 0)
    work = Launch(
        kernel,
        tuple(params.gridDim),
        tuple(params.blockDim),
        params.sharedMemBytes,
        arguments(kernel, params.kernelParams, params.extra),
        cooperative=previous.cooperative if previous else False,
        cluster=previous.cluster if previous else None,
    )
    check(ctx, work)
    return work


def copy_work(params: Memcpy3D) -> Copy:
    """A copy from CUDA_MEMCPY3D. A node is one operation, so its slices must follow each other."""
    copies = copies_3d(params)
    if len(copies) != 1:
        raise CudaError(errors.NOT_SUPPORTED, "a memcpy node whose slices do not follow each other is not supported")
    return copies[0]


def set_work(params: MemsetNodeParams) -> Set:
    """A memset from CUDA_MEMSET_NODE_PARAMS."""
    if params.elementSize not in (1, 2, 4):
        raise CudaError(errors.INVALID_VALUE)
    return make_set(params.dst, params.value, params.elementSize, params.width, params.height, params.pitch)[0]


def host_work(params: HostNodeParams) -> HostFunction:
    """A host function from CUDA_HOST_NODE_PARAMS."""
    if not params.fn:
        raise CudaError(errors.INVALID_VALUE)
    return HostFunction(params.fn, params.userData)


def alloc_work(ctx: Context, params: MemAllocNodeParams) -> AllocNode:
    """An allocation from CUDA_MEM_ALLOC_NODE_PARAMS; its address is known, and written back, from now on."""
    kind = "device" if params.poolProps.location.type == 1 else "host"
    allocation = allocate(ctx, params.bytesize, kind)
    params.dptr = allocation.address
    return AllocNode(allocation.address, allocation.nbytes)


def _add(graph, deps: int, n: int, work: Work) -> Node:
    CLOCK.spend(CAPTURE_NODE_US)
    return graph.add(work, handles_at(deps, n))


@entry("cuGraphAddKernelNode", out(u64), GRAPH, ptr, size, ptr)
def graph_add_kernel_node(ctx, graph, deps, n, params):
    return _add(graph, deps, n, kernel_work(ctx, KernelNodeParams.at(params))).handle


@entry("cuGraphAddMemcpyNode", out(u64), GRAPH, ptr, size, ptr, u64)
def graph_add_memcpy_node(ctx, graph, deps, n, params, _context):
    return _add(graph, deps, n, copy_work(Memcpy3D.at(params))).handle


@entry("cuGraphAddMemsetNode", out(u64), GRAPH, ptr, size, ptr, u64)
def graph_add_memset_node(ctx, graph, deps, n, params, _context):
    return _add(graph, deps, n, set_work(MemsetNodeParams.at(params))).handle


@entry("cuGraphAddHostNode", out(u64), GRAPH, ptr, size, ptr)
def graph_add_host_node(ctx, graph, deps, n, params):
    return _add(graph, deps, n, host_work(HostNodeParams.at(params))).handle


@entry("cuGraphAddChildGraphNode", out(u64), GRAPH, ptr, size, GRAPH)
def graph_add_child_graph_node(ctx, graph, deps, n, child):
    return _add(graph, deps, n, ChildGraph(child.clone())).handle


@entry("cuGraphAddEmptyNode", out(u64), GRAPH, ptr, size)
def graph_add_empty_node(ctx, graph, deps, n):
    return _add(graph, deps, n, Work()).handle


@entry("cuGraphAddEventRecordNode", out(u64), GRAPH, ptr, size, EVENT)
def graph_add_event_record_node(ctx, graph, deps, n, event):
    return _add(graph, deps, n, EventRecord(event)).handle


@entry("cuGraphAddEventWaitNode", out(u64), GRAPH, ptr, size, EVENT)
def graph_add_event_wait_node(ctx, graph, deps, n, event):
    return _add(graph, deps, n, EventWait(event)).handle


@entry("cuGraphAddMemAllocNode", out(u64), GRAPH, ptr, size, ptr)
def graph_add_mem_alloc_node(ctx, graph, deps, n, params):
    return _add(graph, deps, n, alloc_work(ctx, MemAllocNodeParams.at(params))).handle


@entry("cuGraphAddMemFreeNode", out(u64), GRAPH, ptr, size, u64)
def graph_add_mem_free_node(ctx, graph, deps, n, address):
    return _add(graph, deps, n, FreeNode.of(address)).handle


def any_work(ctx: Context, params: GraphNodeParams, previous: Work | None = None) -> Work:
    """Work of any kind from CUgraphNodeParams."""
    kind, given = params.type, params.params
    if kind == 0:
        return kernel_work(ctx, given.kernel, previous)
    if kind == 1:
        return copy_work(given.memcpy.copyParams)
    if kind == 2:
        return set_work(given.memset)
    if kind == 3:
        return host_work(given.host)
    if kind == 4:
        return ChildGraph(GRAPH.convert(given.graph.graph, 0).clone())
    if kind == 5:
        return Work()
    if kind == 6:
        return EventWait(EVENT.convert(given.event.event, 0))
    if kind == 7:
        return EventRecord(EVENT.convert(given.event.event, 0))
    if kind == 10:
        return alloc_work(ctx, given.alloc)
    if kind == 11:
        return FreeNode.of(given.free.dptr)
    if kind == 13:
        raise CudaError(errors.NOT_SUPPORTED, "conditional nodes are not supported by the virtual GPU")
    raise CudaError(errors.NOT_SUPPORTED, f"graph nodes of type {kind} are not supported by the virtual GPU")


@entry("cuGraphAddNode", out(u64), GRAPH, ptr, ptr, size, ptr, version=12030)
def graph_add_node(ctx, graph, deps, _edges, n, params):
    given = GraphNodeParams.at(params)
    node = _add(graph, deps, n, any_work(ctx, given))
    if isinstance(node.work, ChildGraph):
        given.params.graph.graph = node.work.graph.handle
    return node.handle


@entry("cuGraphNodeSetParams", NODE, ptr)
def graph_node_set_params(ctx, node, params):
    given = GraphNodeParams.at(params)
    if given.type != node.work.node_type:
        raise CudaError(errors.INVALID_VALUE)
    former, node.work = node.work, any_work(ctx, given, node.work)
    former.discard()


@entry("cuGraphExecNodeSetParams", EXEC, NODE, ptr)
def graph_exec_node_set_params(ctx, made, node, params):
    made.replace(node, any_work(ctx, GraphNodeParams.at(params), made.step(node).work))


@entry("cuGraphExecKernelNodeSetParams", EXEC, NODE, ptr)
def graph_exec_kernel_node_set_params(ctx, made, node, params):
    previous = made.step(node).work
    if not isinstance(previous, Launch):
        raise CudaError(errors.INVALID_VALUE)
    made.replace(node, kernel_work(ctx, KernelNodeParams.at(params), previous))


@entry("cuGraphExecMemcpyNodeSetParams", EXEC, NODE, ptr, u64)
def graph_exec_memcpy_node_set_params(ctx, made, node, params, _context):
    made.replace(node, copy_work(Memcpy3D.at(params)))


@entry("cuGraphExecMemsetNodeSetParams", EXEC, NODE, ptr, u64)
def graph_exec_memset_node_set_params(ctx, made, node, params, _context):
    made.replace(node, set_work(MemsetNodeParams.at(params)))


@entry("cuGraphExecHostNodeSetParams", EXEC, NODE, ptr)
def graph_exec_host_node_set_params(ctx, made, node, params):
    made.replace(node, host_work(HostNodeParams.at(params)))


@entry("cuGraphExecChildGraphNodeSetParams", EXEC, NODE, GRAPH)
def graph_exec_child_graph_node_set_params(ctx, made, node, child):
    made.replace(node, ChildGraph(child.clone()))


@entry("cuGraphExecEventRecordNodeSetEvent", EXEC, NODE, EVENT)
def graph_exec_event_record_node_set_event(ctx, made, node, event):
    made.replace(node, EventRecord(event))


@entry("cuGraphExecEventWaitNodeSetEvent", EXEC, NODE, EVENT)
def graph_exec_event_wait_node_set_event(ctx, made, node, event):
    made.replace(node, EventWait(event))


def _work(node: Node, kind: type[Work]) -> Work:
    if type(node.work) is not kind:
        raise CudaError(errors.INVALID_VALUE)
    return node.work


@entry("cuGraphNodeGetParams", NODE, ptr, version=13020)
def graph_node_get_params(ctx, node, params):
    """All that a node of one of the common kinds was made from."""
    told = GraphNodeParams.at(params)
    ctypes.memset(params, 0, ctypes.sizeof(told))
    told.type, given, work = node.work.node_type, told.params, node.work
    if isinstance(work, Launch):
        _tell_kernel(node, given.kernel)
    elif isinstance(work, Copy):
        _tell_copy(node, given.memcpy.copyParams)
    elif isinstance(work, Set):
        _tell_set(node, given.memset)
    elif isinstance(work, HostFunction):
        _tell_host(node, given.host)
    elif isinstance(work, ChildGraph):
        given.graph.graph = work.graph.handle
    elif isinstance(work, EventRecord | EventWait):
        given.event.event = work.event.handle
    elif isinstance(work, AllocNode):
        given.alloc.bytesize, given.alloc.dptr = work.nbytes, work.address
    elif isinstance(work, FreeNode):
        given.free.dptr = work.address


_kept: dict[Node, list] = {}  # what cuGraphKernelNodeGetParams points a client at, until its next call


def _tell_kernel(node: Node, told: KernelNodeParams) -> None:
    work = _work(node, Launch)
    block = ctypes.create_string_buffer(work.args, max(1, len(work.args)))
    pointers = (ctypes.c_uint64 * max(1, len(work.kernel.params)))(
        *(ctypes.addressof(block) + offset for offset, _ in work.kernel.params)
    )
    _kept[node] = [block, pointers]
    told.func = told.kern = work.kernel.handle
    told.gridDim[:], told.blockDim[:] = work.grid, work.block
    told.sharedMemBytes = work.shared
    told.kernelParams, told.extra = ctypes.addressof(pointers), 0


def _tell_copy(node: Node, told: Memcpy3D) -> None:
    work = _work(node, Copy)
    ctypes.memset(ctypes.addressof(told), 0, ctypes.sizeof(told))
    for side, address, device, pitch in (
        ("src", work.src, work.src_device, work.src_pitch),
        ("dst", work.dst, work.dst_device, work.dst_pitch),
    ):
        host = device in (None, -1)
        setattr(told, f"{side}MemoryType", 1 if host else 2)
        setattr(told, f"{side}Host" if host else f"{side}Device", address)
        setattr(told, f"{side}Pitch", pitch or work.nbytes)
        setattr(told, f"{side}Height", work.rows)
    told.WidthInBytes, told.Height, told.Depth = work.nbytes, work.rows, 1


def _tell_set(node: Node, told: MemsetNodeParams) -> None:
    work = _work(node, Set)
    told.dst, told.pitch, told.value, told.elementSize = work.dst, work.pitch, work.value, work.element
    told.width, told.height = work.count, work.rows


def _tell_host(node: Node, told: HostNodeParams) -> None:
    work = _work(node, HostFunction)
    told.fn, told.userData = work.function, work.data


@entry("cuGraphKernelNodeGetParams", NODE, ptr)
def graph_kernel_node_get_params(ctx, node, params):
    _tell_kernel(node, KernelNodeParams.at(params))


@entry("cuGraphMemcpyNodeGetParams", NODE, ptr)
def graph_memcpy_node_get_params(ctx, node, params):
    _tell_copy(node, Memcpy3D.at(params))


@entry("cuGraphMemsetNodeGetParams", NODE, ptr)
def graph_memset_node_get_params(ctx, node, params):
    _tell_set(node, MemsetNodeParams.at(params))


@entry("cuGraphHostNodeGetParams", NODE, ptr)
def graph_host_node_get_params(ctx, node, params):
    _tell_host(node, HostNodeParams.at(params))


@entry("cuGraphMemAllocNodeGetParams", NODE, ptr)
def graph_mem_alloc_node_get_params(ctx, node, params):
    work = _work(node, AllocNode)
    told = MemAllocNodeParams.at(params)
    ctypes.memset(params, 0, ctypes.sizeof(told))
    told.poolProps.allocType = 1
    told.poolProps.location.type, told.poolProps.location.id = 1, ctx.device.ordinal
    told.bytesize, told.dptr = work.nbytes, work.address


@entry("cuGraphMemFreeNodeGetParams", NODE, out(u64))
def graph_mem_free_node_get_params(ctx, node):
    return _work(node, FreeNode).address


@entry("cuGraphChildGraphNodeGetGraph", NODE, out(u64))
def graph_child_graph_node_get_graph(ctx, node):
    return _work(node, ChildGraph).graph.handle


@entry("cuGraphEventRecordNodeGetEvent", NODE, out(u64))
def graph_event_record_node_get_event(ctx, node):
    return _work(node, EventRecord).event.handle


@entry("cuGraphEventWaitNodeGetEvent", NODE, out(u64))
def graph_event_wait_node_get_event(ctx, node):
    return _work(node, EventWait).event.handle


@entry("cuGraphEventRecordNodeSetEvent", NODE, EVENT)
def graph_event_record_node_set_event(ctx, node, event):
    _work(node, EventRecord).event = event


@entry("cuGraphEventWaitNodeSetEvent", NODE, EVENT)
def graph_event_wait_node_set_event(ctx, node, event):
    _work(node, EventWait).event = event


@entry("cuGraphKernelNodeSetParams", NODE, ptr)
def graph_kernel_node_set_params(ctx, node, params):
    node.work = kernel_work(ctx, KernelNodeParams.at(params), _work(node, Launch))


@entry("cuGraphMemcpyNodeSetParams", NODE, ptr)
def graph_memcpy_node_set_params(ctx, node, params):
    _work(node, Copy)
    node.work = copy_work(Memcpy3D.at(params))


@entry("cuGraphMemsetNodeSetParams", NODE, ptr)
def graph_memset_node_set_params(ctx, node, params):
    _work(node, Set)
    node.work = set_work(MemsetNodeParams.at(params))


@entry("cuGraphHostNodeSetParams", NODE, ptr)
def graph_host_node_set_params(ctx, node, params):
    _work(node, HostFunction)
    node.work = host_work(HostNodeParams.at(params))


@entry("cuGraphKernelNodeGetAttribute", NODE, ptr, ptr)
def graph_kernel_node_get_attribute(ctx, node, which, value):
    work = _work(node, Launch)
    if not value:
        raise CudaError(errors.INVALID_VALUE)
    ctypes.memset(value, 0, 64)
    if which == 2:
        ctypes.c_int.from_address(value).value = work.cooperative
    elif which == 4 and work.cluster:
        (ctypes.c_uint * 3).from_address(value)[:] = work.cluster


@entry("cuGraphKernelNodeSetAttribute", NODE, ptr, ptr)
def graph_kernel_node_set_attribute(ctx, node, which, value):
    work = _work(node, Launch)
    if not value:
        raise CudaError(errors.INVALID_VALUE)
    changed = work.copy()
    if which == 2:
        changed.cooperative = bool(ctypes.c_int.from_address(value).value)
    elif which == 4:
        changed.cluster = tuple((ctypes.c_uint * 3).from_address(value))
    check(ctx, changed)
    node.work = changed


@entry("cuGraphKernelNodeCopyAttributes", NODE, NODE)
def graph_kernel_node_copy_attributes(ctx, dst, src):
    to, of = _work(dst, Launch), _work(src, Launch)
    to.cooperative, to.cluster = of.cooperative, of.cluster
