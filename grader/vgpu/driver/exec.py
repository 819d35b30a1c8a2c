"""Graph Management: instantiated graphs — launch, update, switching nodes off."""

from __future__ import annotations

import ctypes
import functools
import itertools
from dataclasses import dataclass
from typing import ClassVar

from grader.vgpu.driver import clock, errors, recorder
from grader.vgpu.driver.abi import entry, out, ptr, u32, u64
from grader.vgpu.driver.clock import CALL_US, GRAPH_GAP_US, GRAPH_LAUNCH_US
from grader.vgpu.driver.errors import CudaError
from grader.vgpu.driver.graph import Graph, Node
from grader.vgpu.driver.queue import Op, complete, submit
from grader.vgpu.driver.state import DEFAULT_HANDLE, EXEC, GRAPH, NODE, STREAM, Object, current_context, driver
from grader.vgpu.driver.structs import GraphExecUpdateResultInfo, GraphInstantiateParams
from grader.vgpu.driver.user_object import drop_all
from grader.vgpu.driver.watch import WATCH
from grader.vgpu.driver.work import Work

AUTO_FREE, UPLOAD, DEVICE_LAUNCH, NODE_PRIORITY = 1, 2, 4, 8
# CUgraphExecUpdateResult
UPDATE_ERROR, TOPOLOGY_CHANGED, TYPE_CHANGED = 1, 2, 3


@dataclass
class Step:
    """A node as it was instantiated."""

    node: Node  # of the definition
    work: Work
    after: list[int]  # indices of steps
    enabled: bool = True


def steps_of(graph: Graph) -> list[Step]:
    """The graph's nodes in an order in which they can be run, with copies of their work."""
    return [Step(step.node, step.work.copy(), step.after) for step in _as_defined(graph)]


def _as_defined(graph: Graph) -> list[Step]:
    order = graph.ordered()
    at = {node: k for k, node in enumerate(order)}
    return [Step(node, node.work, sorted(at[dep] for dep in node.deps)) for node in order]


def describe(steps: list[Step]) -> list[dict]:
    """As a recording has them."""
    return [{**step.work.describe(), "after": list(step.after), "enabled": step.enabled} for step in steps]


def run_steps(steps: list[Step], op: Op, ready: float) -> float:
    """Run the steps in the stream of `op`, none before `ready`; when the last one ends."""
    ops: list[Op] = []
    numbers = op.numbers = op.numbers or itertools.count()
    branching = op.branching or any(k - 1 not in step.after for k, step in enumerate(steps) if k)
    for step in steps:
        inner = Op(op.stream, step.work, [ops[k] for k in step.after], ready)
        inner.numbers, inner.branching, inner.outer = numbers, branching, op.outer or op
        WATCH.node(inner, op, next(numbers), inner.deps)
        if step.enabled:
            inner.submit_us = inner.ready_us + GRAPH_GAP_US
            WATCH.run(inner, step.work)
        else:
            inner.start_us = inner.end_us = inner.ready_us
        ops.append(inner)
    WATCH.ran(op, ops)
    return max((inner.end_us for inner in ops), default=ready)


def _count(steps: list[Step]) -> int:
    return sum(_count(step.work.steps) if isinstance(step.work, ChildGraph) else 1 for step in steps)


def _parts(steps: list[Step]) -> list[Work]:
    return [part for step in steps if step.enabled for part in step.work.parts()]


@dataclass
class GraphLaunch(Work):
    """The launch of an instantiated graph, as it was when it was launched."""

    steps: list[Step]
    number: int
    kind: ClassVar[str] = "graph"

    def parts(self) -> list[Work]:
        return _parts(self.steps)

    def waits_for(self) -> list[Op]:
        return [op for part in self.parts() for op in part.waits_for()]

    def run(self, op) -> None:
        op.start_us = op.ready_us
        clock.set_current_graph(self.number)
        try:
            op.end_us = run_steps(self.steps, op, op.start_us)
        finally:
            clock.set_current_graph(None)

    def describe(self) -> dict:
        return {"op": "graph_launch", "exec": self.number}


@dataclass
class ChildGraph(Work):
    """A graph as a node of another."""

    graph: Graph
    kind: ClassVar[str] = "graph"
    node_type: ClassVar[int] = 4

    @functools.cached_property
    def steps(self) -> list[Step]:
        """What runs. The graph in an instantiated graph is a copy of its own, which nobody changes."""
        return _as_defined(self.graph)

    def parts(self) -> list[Work]:
        return _parts(self.steps)

    def run(self, op) -> None:
        op.start_us = op.ready_us
        op.end_us = run_steps(self.steps, op, op.start_us)

    def describe(self) -> dict:
        return {"op": "child", "nodes": describe(_as_defined(self.graph))}

    def copy(self) -> ChildGraph:
        return ChildGraph(self.graph.clone())

    def discard(self) -> None:
        self.graph.destroy()


class Exec(Object):
    """An instantiated graph."""

    def __init__(self, graph: Graph, flags: int):
        if flags & ~(AUTO_FREE | UPLOAD | DEVICE_LAUNCH | NODE_PRIORITY):
            raise CudaError(errors.INVALID_VALUE)
        if flags & DEVICE_LAUNCH:
            raise CudaError(
                errors.NOT_SUPPORTED, "graphs that the device launches are not supported by the virtual GPU"
            )
        steps = steps_of(graph)
        super().__init__()
        self.flags = flags
        self.graph = graph.number
        self.number = driver.number("exec")
        self.steps = steps
        self.user_objects = graph.hold_user_objects()
        self.last: Op | None = None  # its newest launch
        self.former: list[Step] = []  # replaced; launches that are queued may have them
        self.uploaded = False  # as it is now
        clock.CLOCK.spend(clock.instantiate_us(self.nodes()))
        if recorder.recording():
            ordinal = current_context().device.ordinal
            recorder.emit("graph", ordinal, graph=self.graph, exec=self.number, nodes=describe(steps))

    def destroy(self) -> None:
        """Give up what it keeps alive. A launch that is queued still runs, and it runs now: it needs those things."""
        complete(self.last)
        self.release()
        for step in self.steps + self.former:
            step.work.discard()
        drop_all(self.user_objects)

    def nodes(self) -> int:
        """How many nodes it has, those of graphs in it among them."""
        return _count(self.steps)

    def upload_us(self) -> float:
        """What getting it to the device costs the host, where it is not there yet; now it is."""
        us = 0.0 if self.uploaded else clock.UPLOAD_NODE_US * self.nodes()
        self.uploaded = True
        return us

    def step(self, node: Node) -> Step:
        """The step that was made of this node. Raises CudaError INVALID_VALUE."""
        for step in self.steps:
            if step.node is node or step.node.origin is node or step.node is node.origin:
                return step
        raise CudaError(errors.INVALID_VALUE)

    def replace(self, node: Node, work: Work) -> None:
        """Give a node other parameters in this exec only."""
        clock.CLOCK.spend(CALL_US)
        step = self.step(node)
        if type(step.work) is not type(work):
            raise CudaError(errors.INVALID_VALUE)
        self._change(
            [other if other is not step else Step(step.node, work, step.after, step.enabled) for other in self.steps]
        )

    def enable(self, node: Node, enabled: bool) -> None:
        """Switch a kernel, memcpy or memset node on or off. Raises CudaError INVALID_VALUE for other kinds."""
        clock.CLOCK.spend(CALL_US)
        step = self.step(node)
        if step.work.node_type not in (0, 1, 2):
            raise CudaError(errors.INVALID_VALUE)
        self._change(
            [other if other is not step else Step(step.node, step.work, step.after, enabled) for other in self.steps]
        )

    def update(self, graph: Graph) -> tuple[int, Node | None]:
        """Take all parameters from a graph of the same shape: (CUgraphExecUpdateResult, the node in the way)."""
        given = _as_defined(graph)
        if len(given) != len(self.steps):
            return TOPOLOGY_CHANGED, None
        for old, new in zip(self.steps, given, strict=True):
            if old.after != new.after:
                return TOPOLOGY_CHANGED, new.node
            if old.work.node_type != new.work.node_type:
                return TYPE_CHANGED, new.node
        fresh = steps_of(graph)
        self._change([Step(o.node, n.work, n.after, o.enabled) for o, n in zip(self.steps, fresh, strict=True)])
        return 0, None

    def _change(self, steps: list[Step]) -> None:
        """Launches that are queued keep the steps that they were launched with, so the list is a new one."""
        now = {id(step.work) for step in steps}
        self.former += [step for step in self.steps if id(step.work) not in now]
        self.steps, self.uploaded = steps, False
        if recorder.recording():
            ordinal = current_context().device.ordinal
            recorder.emit("graph_update", ordinal, exec=self.number, nodes=describe(steps))


@entry("cuGraphInstantiateWithFlags", out(u64), GRAPH, u64)
def graph_instantiate_with_flags(ctx, graph, flags):
    return Exec(graph, flags).handle


@entry("cuGraphInstantiateWithParams", DEFAULT_HANDLE, out(u64), GRAPH, ptr)
def graph_instantiate_with_params(ctx, default_stream, graph, params):
    given = GraphInstantiateParams.at(params)
    made = Exec(graph, given.flags)
    if given.flags & UPLOAD:
        STREAM.convert(given.hUploadStream, default_stream)
        clock.CLOCK.spend(made.upload_us())
    given.hErrNode_out, given.result_out = 0, 0
    return made.handle


@entry("cuGraphExecGetFlags", EXEC, out(u64))
def graph_exec_get_flags(ctx, made):
    return made.flags


@entry("cuGraphExecGetId", EXEC, out(u32))
def graph_exec_get_id(ctx, made):
    return made.number


@entry("cuGraphUpload", EXEC, STREAM)
def graph_upload(ctx, made, stream):
    """Takes the first launch's preparation out of the first launch."""
    clock.CLOCK.spend(CALL_US + made.upload_us())


@entry("cuGraphLaunch", EXEC, STREAM)
def graph_launch(ctx, made, stream):
    if stream.capture is not None:
        stream.capture.add(stream, _as_child(made))
        return
    work = GraphLaunch(made.steps, made.number)
    made.last = submit(stream, work, host_us=GRAPH_LAUNCH_US + made.upload_us())


def _as_child(made: Exec) -> ChildGraph:
    """A graph launch that is captured becomes a child graph."""
    graph, nodes = Graph(), []
    for step in made.steps:
        work = step.work.copy() if step.enabled else Work()
        nodes.append(graph.add(work, [nodes[k] for k in step.after]))
    return ChildGraph(graph)


@entry("cuGraphExecDestroy", EXEC, context=False)
def graph_exec_destroy(made):
    made.destroy()
    if recorder.recording():
        recorder.emit("graph_destroy", 0, exec=made.number)


@entry("cuGraphExecUpdate", EXEC, GRAPH, ptr)
def graph_exec_update(ctx, made, graph, info):
    clock.CLOCK.spend(CALL_US + clock.UPDATE_NODE_US * made.nodes())
    result, node = made.update(graph)
    if info:
        told = GraphExecUpdateResultInfo.at(info)
        told.result, told.errorNode, told.errorFromNode = result, node.handle if node else 0, 0
    if result:
        raise CudaError(errors.GRAPH_EXEC_UPDATE_FAILURE)


@entry("cuGraphNodeSetEnabled", EXEC, NODE, u32)
def graph_node_set_enabled(ctx, made, node, enabled):
    made.enable(node, bool(enabled))


@entry("cuGraphNodeGetEnabled", EXEC, NODE, ptr)
def graph_node_get_enabled(ctx, made, node, enabled):
    if not enabled:
        raise CudaError(errors.INVALID_VALUE)
    step = made.step(node)
    if step.work.node_type not in (0, 1, 2):
        raise CudaError(errors.INVALID_VALUE)
    ctypes.c_uint.from_address(enabled).value = step.enabled
