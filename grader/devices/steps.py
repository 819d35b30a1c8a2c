"""A program's operations as driver calls, prepared so that between two of them little else happens."""

import ctypes
from collections.abc import Callable

from cuda.bindings import driver as cu

from grader import program as p
from grader.devices.driver import call, pointer
from grader.devices.memory import Memory
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


def pooled(program: Program, op: p.Alloc | p.Free) -> bool:
    """It is about memory of the host's from a pool."""
    return op.stream is not None and program.buffers[op.buffer].kind != "device"


class Steps:
    """What is there while a program runs: its memory, streams, events and graphs."""

    def __init__(
        self,
        program: Program,
        memory: list[Memory],
        streams: list,
        functions: dict,
        ordinal: int,
        backwards: bool,
        busy: Callable[[int], None],
    ):
        self._busy = busy  # told of bytes that the host itself has copied or written
        self._backwards = backwards  # see `synchronize`
        self._program, self._memory, self._streams = program, memory, streams
        self._functions = functions  # (module, kernel) -> CUfunction, [(offset, size)] of its parameters
        self._ordinal = ordinal
        used = {op.event for op in program.ops if isinstance(op, p.Record)}
        self._events = {number: call(cu.cuEventCreate, 2) for number in used}
        self._recorded: set[int] = set()
        self._execs: dict[int, object] = {}
        self._graphs: list = []
        self._alive: list = []  # argument blocks that queued work still points to

    def prepare(self) -> list[Step]:
        """One step an operation, in order."""
        return [getattr(self, f"_{op.op}")(op) for op in self._program.ops]

    def close(self) -> None:
        """Give back what is not memory and no stream."""
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

        if all(self._memory[r.buffer].address for r in op.relocations):
            return launch(*self._arguments(op))
        return lambda: launch(*self._arguments(op))()

    def _arguments(self, op: Launch) -> tuple:
        """(CUfunction, address of the pointers to its parameters)."""
        function, params = self._functions[op.module, op.kernel]
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
            self._busy(len(blob))

        return write

    def _host_copy(self, op: p.HostCopy) -> Step:
        def copy():
            ctypes.memmove(self._at(op.to), self._at(op.source), op.nbytes)
            self._busy(op.nbytes)

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
        at_device = name == "device"
        where.type = kinds.CU_MEM_LOCATION_TYPE_DEVICE if at_device else kinds.CU_MEM_LOCATION_TYPE_HOST
        where.id = self._ordinal if at_device else 0
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
            return lambda: synchronize(self._streams, self._backwards)
        if op.id not in self._recorded:
            return lambda: None
        return lambda: call(cu.cuEventSynchronize, self._events[op.id])

    # --- graphs ----------------------------------------------------------------------------------------------------

    def _graph(self, op: p.Graph) -> Step:
        def make():
            self._execs[op.exec] = call(cu.cuGraphInstantiate, self._definition(op.nodes), 0)

        return make

    def _graph_update(self, op: p.GraphUpdate) -> Step:
        return lambda: call(cu.cuGraphExecUpdate, self._execs[op.exec], self._definition(op.nodes))

    def _graph_launch(self, op: p.GraphLaunch) -> Step:
        return lambda: call(cu.cuGraphLaunch, self._execs[op.exec], self._streams[op.stream])

    def _definition(self, nodes: tuple[p.Node, ...]):
        """A graph of these nodes."""
        graph = call(cu.cuGraphCreate, 0)
        self._graphs.append(graph)
        made: list = []
        for node in nodes:
            deps = [made[k] for k in node.after]
            made.append(self._node(graph, deps, node.work))
        return graph

    def _node(self, graph, deps: list, work: Launch | Copy | Fill | None):
        where = graph, deps or None, len(deps)
        match work:
            case None:
                return call(cu.cuGraphAddEmptyNode, *where)
            case Launch():
                return call(cu.cuGraphAddKernelNode, *where, self._kernel_params(work))
            case Copy():
                return call(cu.cuGraphAddMemcpyNode, *where, self._copy_params(work), call(cu.cuCtxGetCurrent))
        params = cu.CUDA_MEMSET_NODE_PARAMS()
        params.dst, params.value, params.elementSize = self._at(work.to), work.value, work.width
        params.width, params.height, params.pitch = work.count, work.rows, work.pitch or work.count * work.width
        return call(cu.cuGraphAddMemsetNode, *where, params, call(cu.cuCtxGetCurrent))

    def _kernel_params(self, op: Launch):
        params = cu.CUDA_KERNEL_NODE_PARAMS()
        params.func, params.kernelParams = self._arguments(op)
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
