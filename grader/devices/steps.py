"""A program's operations as driver calls, prepared so that between two of them little else happens."""

import ctypes
from collections.abc import Callable

from cuda.bindings import driver as cu

from grader import program as p
from grader.devices.driver import call, pointer
from grader.devices.stage import Stage, pooled
from grader.program import Copy, Fill, Launch, Place, Program

Step = Callable[[], object]
_HOST, _DEVICE = cu.CUmemorytype.CU_MEMORYTYPE_HOST, cu.CUmemorytype.CU_MEMORYTYPE_DEVICE
_FILLS = {1: cu.cuMemsetD8Async, 2: cu.cuMemsetD16Async, 4: cu.cuMemsetD32Async}
_FILLS_2D = {1: cu.cuMemsetD2D8Async, 2: cu.cuMemsetD2D16Async, 4: cu.cuMemsetD2D32Async}


def synchronize(streams: list, backwards: bool) -> None:
    """Wait for the device. `backwards`: for the streams that were made last first, so that work which should have waited
    for an earlier stream, and did not, comes too early; a device that works as late as it may shows it every time."""
    for stream in reversed(streams) if backwards else ():
        call(cu.cuStreamSynchronize, stream)
    call(cu.cuCtxSynchronize)


class Steps:
    """What is there while a program runs: its memory, streams, events and graphs."""

    def __init__(
        self,
        program: Program,
        stage: Stage,
        functions: dict,
        ordinal: int,
        backwards: bool,
        wrote: Callable[..., None],
    ):
        self._wrote = wrote  # see `player.Unwatched`
        self._backwards = backwards  # see `synchronize`
        self._program, self._memory, self._streams = program, stage.memory, stage.streams
        self._streams_on = program.stream_devices or (0,) * len(stage.streams)
        self._functions = functions  # (device, module, kernel) -> CUfunction, [(offset, size)] of its parameters
        self._contexts, self._ordinal = stage.contexts, ordinal
        self._device = 0  # of the operation that is prepared
        self._peers: set[tuple[int, int]] = set()
        on = {op.event: program.device_of(op) for op in program.ops if isinstance(op, p.Record)}
        self._event_devices = on
        self._events = {}
        for number, device in on.items():
            stage.contexts.use(device)
            self._events[number] = call(cu.cuEventCreate, 2)
        stage.contexts.use(0)
        self._recorded: set[int] = set()
        self._execs: dict[int, object] = {}
        self._graph_devices: dict[int, int] = {}
        self._nodes: dict[int, list] = {}  # graph -> its nodes, and which of them are switched on
        self._graphs: list = []
        self._alive: list = []  # argument blocks that queued work still points to

    def prepare(self) -> list[Step]:
        """One step an operation, in order."""
        return [self._step(op) for op in self._program.ops]

    def _step(self, op: p.Op) -> Step:
        device = self._device = self._program.device_of(op)
        if isinstance(op, p.Sync) and op.what == "event":
            device = self._event_devices.get(op.id, 0)
        self._contexts.use(device)
        step = getattr(self, f"_{op.op}")(op)
        if self._program.devices == 1:
            return step

        def on_its_device():
            self._contexts.use(device)
            step()

        return on_its_device

    def close(self) -> None:
        """Give back what is not memory and no stream."""
        for device, peer in self._peers:
            self._contexts.use(device)
            cu.cuCtxDisablePeerAccess(self._contexts[peer])
        self._contexts.use(0)
        for made in self._execs.values():
            cu.cuGraphExecDestroy(made)
        for graph in self._graphs:
            cu.cuGraphDestroy(graph)
        for event in self._events.values():
            cu.cuEventDestroy(event)

    # --- launches, copies, fills -----------------------------------------------------------------------------------

    def _launch(self, op: Launch) -> Step:
        stream = self._streams[op.stream]

        def launch(function, pointers):
            sizes = (*op.grid, *op.block, op.shared)
            if op.cooperative:
                return lambda: call(cu.cuLaunchCooperativeKernel, function, *sizes, stream, pointers)
            return lambda: call(cu.cuLaunchKernel, function, *sizes, stream, pointers, 0)

        device = self._device
        if all(self._memory[r.buffer].address for r in op.relocations):
            return launch(*self._arguments(op, device))
        return lambda: launch(*self._arguments(op, device))()

    def _arguments(self, op: Launch, device: int) -> tuple:
        """(CUfunction, address of the pointers to its parameters)."""
        function, params = self._functions[device, op.module, op.kernel]
        block = bytearray(op.args) or bytearray(1)
        for r in op.relocations:
            block[r.offset : r.offset + 8] = (self._memory[r.buffer].address + r.addend).to_bytes(8, "little")
        raw = (ctypes.c_ubyte * len(block)).from_buffer(block)
        pointers = (ctypes.c_void_p * max(1, len(params)))(*(ctypes.addressof(raw) + offset for offset, _ in params))
        self._alive += [raw, pointers]
        return function, ctypes.addressof(pointers)

    def _copy(self, op: Copy) -> Step:
        stream = self._streams[op.stream]
        if op.rows > 1:
            return lambda: self._copy_2d(op, stream)
        blob = None if op.blob is None else self._program.blobs[op.blob]

        def copy():
            to = self._at(op.to)
            if blob is not None:
                function = cu.cuMemcpyHtoD if op.blocking else cu.cuMemcpyHtoDAsync
                source = pointer(blob)
            else:
                function = cu.cuMemcpy if op.blocking else cu.cuMemcpyAsync
                source = self._at(op.source)
            self._do(op, stream, function, to, source, op.nbytes)

        return copy

    def _copy_2d(self, op: Copy, stream) -> None:
        params = cu.CUDA_MEMCPY2D()
        params.WidthInBytes, params.Height = op.nbytes, op.rows
        self._end(params, "dst", self._memory[op.to.buffer].kind, self._at(op.to), op.to_pitch)
        if op.blob is not None:
            self._end(params, "src", "pageable", pointer(self._program.blobs[op.blob]), op.nbytes)
        else:
            self._end(params, "src", self._memory[op.source.buffer].kind, self._at(op.source), op.source_pitch)
        self._do(op, stream, cu.cuMemcpy2D if op.blocking else cu.cuMemcpy2DAsync, params)

    @staticmethod
    def _end(params, side: str, kind: str, address: int, pitch: int) -> None:
        at_host = kind in ("host", "pageable")
        setattr(params, f"{side}MemoryType", _HOST if at_host else _DEVICE)
        setattr(params, f"{side}{'Host' if at_host else 'Device'}", address)
        setattr(params, f"{side}Pitch", pitch)

    @staticmethod
    def _do(op: Copy, stream, function, *args) -> None:
        """A call without Async works on the default stream, the legacy one (0) or the calling thread's."""
        if op.blocking and op.stream:
            call(cu.cuStreamSynchronize, stream)
        call(function, *args, *(() if op.blocking else (stream,)))

    def _fill(self, op: Fill) -> Step:
        stream = self._streams[op.stream]
        if op.rows > 1:
            sizes = (op.count, op.rows, stream)
            return lambda: call(_FILLS_2D[op.width], self._at(op.to), op.pitch, op.value, *sizes)
        return lambda: call(_FILLS[op.width], self._at(op.to), op.value, op.count, stream)

    # --- memory ----------------------------------------------------------------------------------------------------

    def _at(self, place: Place) -> int:
        return self._memory[place.buffer].address + place.offset

    def _alloc(self, op: p.Alloc) -> Step:
        if pooled(self._program, op):
            return lambda: None
        return lambda: self._memory[op.buffer].allocate(self._stream_or_none(op))

    def _free(self, op: p.Free) -> Step:
        if pooled(self._program, op):
            return lambda: None
        return lambda: self._memory[op.buffer].free(self._stream_or_none(op))

    def _stream_or_none(self, op: p.Alloc | p.Free):
        return None if op.stream is None else self._streams[op.stream]

    def _host_write(self, op: p.HostWrite) -> Step:
        blob = self._program.blobs[op.blob]

        def write():
            self._memory[op.to.buffer].write(op.to.offset, blob)
            self._wrote(self._at(op.to), len(blob))

        return write

    def _host_copy(self, op: p.HostCopy) -> Step:
        def copy():
            ctypes.memmove(self._at(op.to), self._at(op.source), op.nbytes)
            self._wrote(self._at(op.to), op.nbytes, self._at(op.source))

        return copy

    def _register(self, op: p.Register) -> Step:
        return lambda: self._memory[op.place.buffer].register(op.place.offset, op.nbytes)

    def _unregister(self, op: p.Unregister) -> Step:
        return lambda: self._memory[op.place.buffer].unregister(op.place.offset)

    def _prefetch(self, op: p.Prefetch) -> Step:
        where, stream = self._location(op.location), self._streams[op.stream]
        return lambda: call(cu.cuMemPrefetchAsync, self._at(op.place), op.nbytes, where, 0, stream)

    def _advise(self, op: p.Advise) -> Step:
        where = self._location(op.location)
        unset, name = op.advice.startswith("unset_"), op.advice.removeprefix("unset_").upper()
        advice = getattr(cu.CUmem_advise, f"CU_MEM_ADVISE_{'UNSET' if unset else 'SET'}_{name}")
        return lambda: call(cu.cuMemAdvise, self._at(op.place), op.nbytes, advice, where)

    def _location(self, name: str):
        where = cu.CUmemLocation()
        kinds = cu.CUmemLocationType
        at_device = name != "host"
        where.type = kinds.CU_MEM_LOCATION_TYPE_DEVICE if at_device else kinds.CU_MEM_LOCATION_TYPE_HOST
        where.id = self._ordinal + int(name.partition(":")[2] or 0) if at_device else 0
        return where

    # --- order -----------------------------------------------------------------------------------------------------

    def _record(self, op: p.Record) -> Step:
        self._recorded.add(op.event)
        return lambda: call(cu.cuEventRecord, self._events[op.event], self._streams[op.stream])

    def _wait(self, op: p.Wait) -> Step:
        if op.event not in self._recorded:  # nothing to wait for
            return lambda: None
        return lambda: call(cu.cuStreamWaitEvent, self._streams[op.stream], self._events[op.event], 0)

    def _sync(self, op: p.Sync) -> Step:
        if op.what == "stream":
            return lambda: call(cu.cuStreamSynchronize, self._streams[op.id])
        if op.what == "context":
            own = [s for s, on in zip(self._streams, self._streams_on, strict=True) if on == op.id]
            return lambda: synchronize(own, self._backwards)
        if op.id not in self._recorded:
            return lambda: None
        return lambda: call(cu.cuEventSynchronize, self._events[op.id])

    def _peer(self, op: p.Peer) -> Step:
        def enable():
            call(cu.cuCtxEnablePeerAccess, self._contexts[op.peer], 0)
            self._peers.add((op.device, op.peer))

        def disable():
            call(cu.cuCtxDisablePeerAccess, self._contexts[op.peer])
            self._peers.discard((op.device, op.peer))

        return enable if op.enabled else disable

    # --- graphs ----------------------------------------------------------------------------------------------------

    def _graph(self, op: p.Graph) -> Step:
        self._graph_devices[op.exec] = op.device

        def make():
            graph, made = self._definition(op.nodes, op.device)
            self._execs[op.exec] = call(cu.cuGraphInstantiate, graph, 0)
            self._nodes[op.exec] = [[node, True] for node in made]
            self._switch(op)

        return make

    def _graph_update(self, op: p.GraphUpdate) -> Step:
        device = self._graph_devices[op.exec]

        def update():
            self._contexts.use(device)
            call(cu.cuGraphExecUpdate, self._execs[op.exec], self._definition(op.nodes, device)[0])
            self._switch(op)

        return update

    def _switch(self, op: p.Graph | p.GraphUpdate) -> None:
        """Nodes on and off, where they are not as they shall be."""
        for entry, node in zip(self._nodes[op.exec], op.nodes, strict=True):
            if entry[1] != node.enabled:
                call(cu.cuGraphNodeSetEnabled, self._execs[op.exec], entry[0], int(node.enabled))
                entry[1] = node.enabled

    def _graph_launch(self, op: p.GraphLaunch) -> Step:
        return lambda: call(cu.cuGraphLaunch, self._execs[op.exec], self._streams[op.stream])

    def _definition(self, nodes: tuple[p.Node, ...], device: int) -> tuple:
        """(a graph of these nodes on a device, the nodes)."""
        graph = call(cu.cuGraphCreate, 0)
        self._graphs.append(graph)
        made: list = []
        for node in nodes:
            deps = [made[k] for k in node.after]
            made.append(self._node(graph, deps, node.work, device))
        return graph, made

    def _node(self, graph, deps: list, work: Launch | Copy | Fill | None, device: int):
        where = graph, deps or None, len(deps)
        match work:
            case None:
                return call(cu.cuGraphAddEmptyNode, *where)
            case Launch():
                return call(cu.cuGraphAddKernelNode, *where, self._kernel_params(work, device))
            case Copy():
                return call(cu.cuGraphAddMemcpyNode, *where, self._copy_params(work), call(cu.cuCtxGetCurrent))
        params = cu.CUDA_MEMSET_NODE_PARAMS()
        params.dst, params.value, params.elementSize = self._at(work.to), work.value, work.width
        params.width, params.height, params.pitch = work.count, work.rows, work.pitch or work.count * work.width
        return call(cu.cuGraphAddMemsetNode, *where, params, call(cu.cuCtxGetCurrent))

    def _kernel_params(self, op: Launch, device: int):
        params = cu.CUDA_KERNEL_NODE_PARAMS()
        params.func, params.kernelParams = self._arguments(op, device)
        params.gridDimX, params.gridDimY, params.gridDimZ = op.grid
        params.blockDimX, params.blockDimY, params.blockDimZ = op.block
        params.sharedMemBytes = op.shared
        return params

    def _copy_params(self, op: Copy):
        params = cu.CUDA_MEMCPY3D()
        params.WidthInBytes, params.Height, params.Depth = op.nbytes, op.rows, 1
        self._end(params, "dst", self._memory[op.to.buffer].kind, self._at(op.to), op.to_pitch or op.nbytes)
        source = self._memory[op.source.buffer].kind
        self._end(params, "src", source, self._at(op.source), op.source_pitch or op.nbytes)
        return params
