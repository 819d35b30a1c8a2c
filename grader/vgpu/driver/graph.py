"""Graph Management: definitions — graphs, nodes and their edges."""

from __future__ import annotations

import ctypes
from collections import Counter

from grader.vgpu.driver import errors
from grader.vgpu.driver.abi import cstr, entry, out, ptr, size, u32, u64
from grader.vgpu.driver.errors import CudaError
from grader.vgpu.driver.state import GRAPH, NODE, Object, driver
from grader.vgpu.driver.user_object import UserObject, drop_all
from grader.vgpu.driver.work import Work


class Node(Object):
    """Work in a graph, and the nodes that it waits for (in the order in which they were named)."""

    def __init__(self, graph: Graph, work: Work, deps):
        super().__init__()
        self.graph = graph
        self.work = work
        self.deps: dict[Node, None] = dict.fromkeys(deps)
        self.number = len(graph.nodes)
        self.origin = self  # in a clone: the node that it is a copy of

    def release(self) -> None:
        """And what its work alone has, goes with it."""
        super().release()
        self.work.discard()


class Graph(Object):
    """A graph. Its nodes are in the order in which they were added."""

    def __init__(self):
        super().__init__()
        self.number = driver.number("graph")
        self.nodes: list[Node] = []
        self.user_objects: Counter[UserObject] = Counter()  # references that it holds
        self.original: Graph | None = None  # the graph that this is a clone of

    def add(self, work: Work, deps) -> Node:
        """Add a node that waits for `deps`, which must be of this graph."""
        for dep in deps:
            if dep.graph is not self:
                raise CudaError(errors.INVALID_VALUE)
        node = Node(self, work, deps)
        self.nodes.append(node)
        return node

    def ordered(self) -> list[Node]:
        """The nodes in an order in which they can be run. Raises CudaError INVALID_VALUE for a cycle."""
        done: dict[Node, None] = {}
        waiting = list(self.nodes)
        while waiting:
            ready = [node for node in waiting if all(dep in done for dep in node.deps)]
            if not ready:
                raise CudaError(errors.INVALID_VALUE, "the graph's dependencies form a cycle")
            done |= dict.fromkeys(ready)
            waiting = [node for node in waiting if node not in done]
        return list(done)

    def clone(self) -> Graph:
        """A copy whose nodes know which they are copies of."""
        other = Graph()
        other.original = self
        twins: dict[Node, Node] = {}
        for node in self.ordered():
            twin = other.add(node.work.copy(), [twins[dep] for dep in node.deps])
            twin.origin = node
            twins[node] = twin
        other.nodes = [twins[node] for node in self.nodes]
        other.user_objects = self.hold_user_objects()
        return other

    def hold_user_objects(self) -> Counter[UserObject]:
        """References of one's own to what this graph keeps alive: a clone and an instantiated graph have them."""
        for user_object, count in self.user_objects.items():
            user_object.count += count
        return Counter(self.user_objects)

    def destroy(self) -> None:
        """Its nodes go with it, and its hold on user objects."""
        for node in self.nodes:
            node.release()
        self.release()
        drop_all(self.user_objects)


def handles_at(address: int, n: int) -> list[Node]:
    """The nodes whose handles are in this array."""
    if not n:
        return []
    if not address:
        raise CudaError(errors.INVALID_VALUE)
    return [NODE.convert(handle, 0) for handle in (ctypes.c_uint64 * n).from_address(address)]


def list_out(handles: list[int], array: int, count: int) -> None:
    """The two-call idiom: NULL array asks for the number; else at most *count are written, and the rest zeroed."""
    if not count:
        raise CudaError(errors.INVALID_VALUE)
    n = ctypes.c_size_t.from_address(count)
    if array:
        room = n.value
        target = (ctypes.c_uint64 * room).from_address(array)
        for k in range(room):
            target[k] = handles[k] if k < len(handles) else 0
        n.value = min(room, len(handles))
    else:
        n.value = len(handles)


@entry("cuGraphCreate", out(u64), u32)
def graph_create(ctx, flags):
    if flags:
        raise CudaError(errors.INVALID_VALUE)
    return Graph().handle


@entry("cuGraphDestroy", GRAPH, context=False)
def graph_destroy(graph):
    graph.destroy()


@entry("cuGraphClone", out(u64), GRAPH)
def graph_clone(ctx, graph):
    return graph.clone().handle


@entry("cuGraphNodeFindInClone", out(u64), NODE, GRAPH)
def graph_node_find_in_clone(ctx, node, clone):
    for twin in clone.nodes:
        if twin.origin is node:
            return twin.handle
    raise CudaError(errors.INVALID_VALUE)


@entry("cuGraphDestroyNode", NODE)
def graph_destroy_node(ctx, node):
    node.graph.nodes.remove(node)
    for other in node.graph.nodes:
        other.deps.pop(node, None)
    node.release()


@entry("cuGraphGetNodes", GRAPH, ptr, ptr)
def graph_get_nodes(ctx, graph, array, count):
    list_out([node.handle for node in graph.nodes], array, count)


@entry("cuGraphGetRootNodes", GRAPH, ptr, ptr)
def graph_get_root_nodes(ctx, graph, array, count):
    list_out([node.handle for node in graph.nodes if not node.deps], array, count)


@entry("cuGraphGetEdges", GRAPH, ptr, ptr, ptr, ptr)
def graph_get_edges(ctx, graph, starts, ends, edges, count):
    pairs = [(dep.handle, node.handle) for node in graph.nodes for dep in node.deps]
    room = ctypes.c_size_t.from_address(count).value if count else 0
    list_out([start for start, _ in pairs], starts, count)
    if starts and ends:
        ctypes.c_size_t.from_address(count).value = room
        list_out([end for _, end in pairs], ends, count)
    if starts and edges:
        ctypes.memset(edges, 0, 8 * min(room, len(pairs)))


def _neighbours(nodes: list[Node], array: int, edges: int, count: int) -> None:
    list_out([node.handle for node in nodes], array, count)
    if array and edges:
        ctypes.memset(edges, 0, 8 * ctypes.c_size_t.from_address(count).value)


@entry("cuGraphNodeGetDependencies", NODE, ptr, ptr, version=0)
def graph_node_get_dependencies(ctx, node, array, count):
    _neighbours(list(node.deps), array, 0, count)


@entry("cuGraphNodeGetDependencies", NODE, ptr, ptr, ptr, version=12030)
def graph_node_get_dependencies_v2(ctx, node, array, edges, count):
    _neighbours(list(node.deps), array, edges, count)


@entry("cuGraphNodeGetDependentNodes", NODE, ptr, ptr)
def graph_node_get_dependent_nodes(ctx, node, array, count):
    _neighbours([other for other in node.graph.nodes if node in other.deps], array, 0, count)


@entry("cuGraphNodeGetDependentNodes", NODE, ptr, ptr, ptr, version=12030)
def graph_node_get_dependent_nodes_v2(ctx, node, array, edges, count):
    _neighbours([other for other in node.graph.nodes if node in other.deps], array, edges, count)


@entry("cuGraphAddDependencies", GRAPH, ptr, ptr, ptr, size, version=12030)
def graph_add_dependencies(ctx, graph, starts, ends, _edges, n):
    for start, end in zip(handles_at(starts, n), handles_at(ends, n), strict=True):
        if start.graph is not graph or end.graph is not graph or start in end.deps:
            raise CudaError(errors.INVALID_VALUE)
        end.deps[start] = None


@entry("cuGraphRemoveDependencies", GRAPH, ptr, ptr, ptr, size, version=12030)
def graph_remove_dependencies(ctx, graph, starts, ends, _edges, n):
    for start, end in zip(handles_at(starts, n), handles_at(ends, n), strict=True):
        if start not in end.deps:
            raise CudaError(errors.INVALID_VALUE)
        del end.deps[start]


@entry("cuGraphNodeGetType", NODE, out(u32))
def graph_node_get_type(ctx, node):
    return node.work.node_type


@entry("cuGraphNodeGetContainingGraph", NODE, out(u64))
def graph_node_get_containing_graph(ctx, node):
    return node.graph.handle


@entry("cuGraphNodeGetLocalId", NODE, out(u32))
def graph_node_get_local_id(ctx, node):
    return node.number


@entry("cuGraphGetId", GRAPH, out(u32))
def graph_get_id(ctx, graph):
    return graph.number


@entry("cuGraphDebugDotPrint", GRAPH, cstr, u32)
def graph_debug_dot_print(ctx, graph, path, flags):
    """Graphviz: one box a node, with what it does."""
    lines = ["digraph dot {", f'subgraph cluster_{graph.number} {{ label="graph_{graph.number}" graph[style="dashed"];']
    for node in graph.nodes:
        label = getattr(getattr(node.work, "kernel", None), "name", None) or node.work.describe()["op"]
        lines.append(f'"graph_{graph.number}_node_{node.number}" [label="{node.number}: {label}" shape="rectangle"];')
    for node in graph.nodes:
        for dep in node.deps:
            names = [f'"graph_{graph.number}_node_{end.number}"' for end in (dep, node)]
            lines.append(" -> ".join(names) + ";")
    try:
        with open(path, "w") as file:
            file.write("\n".join([*lines, "}", "}", ""]))
    except OSError:
        raise CudaError(errors.OPERATING_SYSTEM) from None
