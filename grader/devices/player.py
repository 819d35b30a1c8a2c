"""Replay a `Program` through the CUDA driver API: the same code on the virtual and on a real GPU.

Runs in a process of its own in which no student Python ever ran. Only addresses that this process allocated reach the
device: the program's own are (buffer, offset).
"""

import ctypes
import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from cuda.bindings import driver as cu

from grader.program import Copy, Fill, Launch, Program, Record, Sync, Wait

FAULTS = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": "illegal_address",
    "CUDA_ERROR_MISALIGNED_ADDRESS": "misaligned",
    "CUDA_ERROR_ASSERT": "assert",
    "CUDA_ERROR_LAUNCH_TIMEOUT": "timeout",
    "CUDA_ERROR_OUT_OF_MEMORY": "memory",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": "trap",
}
GUARD_BYTE = 0xA7


class DeviceError(Exception):
    """A driver call failed. `kind` as in grader.evidence.Fault."""

    def __init__(self, call: str, name: str):
        super().__init__(f"{call}: {name}")
        self.error = name
        self.kind = FAULTS.get(name, "launch")


@dataclass(frozen=True)
class Played:
    """One replay, as far as any driver can tell."""

    outputs: dict[str, bytes]
    seconds: float
    host_seconds: float  # by the host's clock, from before the flush until the whole device is idle
    overrun: tuple[str, ...]
    changed: tuple[str, ...]


@dataclass
class Player:
    """A context on one device. `assemble` turns PTX into what the driver is given (PTX itself, or a cubin)."""

    ordinal: int = 0
    assemble: Callable[[bytes], bytes] = lambda ptx: ptx
    name: Callable[[int, str], None] = lambda address, label: None  # told what lies where
    _libraries: dict[str, object] = field(default_factory=dict)
    _functions: dict[tuple[str, str], tuple] = field(default_factory=dict)

    def __post_init__(self):
        _call(cu.cuInit, 0)
        self._device = _call(cu.cuDeviceGet, self.ordinal)
        _call(cu.cuCtxSetCurrent, _call(cu.cuDevicePrimaryCtxRetain, self._device))

    def play(
        self, program: Program, inputs: Mapping[str, bytes], poison: int | None, guard: int = 0, flush: int = 0
    ) -> Played:
        """Run the timed part once. DeviceError when the device faults; the context is then of no further use.

        poison: byte that fills outputs and fresh memory; None leaves new memory as the allocator made it (so that the
        virtual GPU still knows that nobody wrote it). guard: bytes on either side of each buffer that must survive.
        flush: bytes that are written just before, to empty the L2 cache and to keep the launch queue ahead of the GPU.
        """
        functions = [self._function(program, op) if isinstance(op, Launch) else None for op in program.ops]
        memory = [_Memory(b.nbytes, b.kind, guard) for b in program.buffers]
        scratch = _Memory(flush, "device", 0) if flush else None
        streams = [_stream(kind) for kind in program.streams]
        events: dict[int, object] = {}
        try:
            for b, m in zip(program.buffers, memory, strict=True):
                contents = inputs.get(b.name) if b.role in ("input", "inout") else None
                if b.initial is not None:
                    contents = program.blobs[b.initial]
                m.prepare(contents, poison)
                if b.name:
                    self.name(m.address, f"array {b.name} of shape {b.shape}")
            _call(cu.cuCtxSynchronize)
            start, end = (_call(cu.cuEventCreate, 0) for _ in range(2))
            host_start = time.monotonic()
            if scratch:
                _call(cu.cuMemsetD8Async, scratch.address, 0, flush, 0)
            _call(cu.cuEventRecord, start, 0)
            for stream, kind in zip(streams, program.streams, strict=True):
                if kind == "non-blocking":
                    _call(cu.cuStreamWaitEvent, stream, start, 0)
            for op, function in zip(program.ops, functions, strict=True):
                _issue(op, function, memory, streams, events, program)
            for stream, kind in zip(streams, program.streams, strict=True):
                if kind == "non-blocking":  # the closing time stamp waits for every stream
                    done = events.setdefault(-1 - len(events), _call(cu.cuEventCreate, 2))
                    _call(cu.cuEventRecord, done, stream)
                    _call(cu.cuStreamWaitEvent, 0, done, 0)
            _call(cu.cuEventRecord, end, 0)
            _call(cu.cuCtxSynchronize)
            host_seconds = time.monotonic() - host_start
            seconds = _call(cu.cuEventElapsedTime, start, end) * 1e-3
            outputs = {n: memory[i].read() for n, i in program.named("output", "inout").items()}
            changed = tuple(n for n, i in program.named("input").items() if memory[i].read() != inputs[n])
            overrun = tuple(b.name for b, m in zip(program.buffers, memory, strict=True) if not m.guards_intact())
        finally:
            self._release(memory, scratch, streams, program.streams, [*events.values()])
        for e in (start, end):
            _call(cu.cuEventDestroy, e)
        return Played(outputs, seconds, host_seconds, overrun, changed)

    def _function(self, program: Program, op: Launch) -> tuple:
        """(CUfunction, parameter offsets and sizes) of a launch, loaded at its first use."""
        ptx = program.modules[op.module]
        digest = hashlib.sha256(ptx).hexdigest()
        if digest not in self._libraries:
            image = self.assemble(ptx)
            if not image.startswith(b"\x7fELF"):
                image = image.rstrip(b"\0") + b"\0"
            self._libraries[digest] = _call(cu.cuLibraryLoadData, image, [], [], 0, [], [], 0)
        key = digest, op.kernel
        if key not in self._functions:
            kernel = _call(cu.cuLibraryGetKernel, self._libraries[digest], op.kernel.encode())
            self._functions[key] = _call(cu.cuKernelGetFunction, kernel), _parameters(kernel)
        function, params = self._functions[key]
        need = max((offset + size for offset, size in params), default=0)
        if need > len(op.args):
            raise DeviceError(f"launch of {op.kernel} with {len(op.args)} of {need} bytes of arguments", "")
        if op.shared > 48 << 10:
            attribute = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            _call(cu.cuFuncSetAttribute, function, attribute, op.shared)
        return function, params

    def _release(self, memory, scratch, streams, kinds, events) -> None:
        """Give everything back; after a fault the driver refuses, and the process is on its way out anyway."""
        for m in [*memory, *([scratch] if scratch else [])]:
            m.free()
        for event in events:
            cu.cuEventDestroy(event)
        for stream, kind in zip(streams, kinds, strict=True):
            if kind.endswith("blocking"):
                cu.cuStreamDestroy(stream)


class _Memory:
    """One buffer with its guard bands."""

    def __init__(self, nbytes: int, kind: str, guard: int):
        self.nbytes, self.kind, self.guard = nbytes, kind, guard
        total = nbytes + 2 * guard
        if kind == "device":
            self._base = int(_call(cu.cuMemAlloc, total))
        elif kind == "managed":
            self._base = int(_call(cu.cuMemAllocManaged, total, cu.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL.value))
        else:
            self._base = int(_call(cu.cuMemHostAlloc, total, 0))
        self.address = self._base + guard

    def prepare(self, contents: bytes | None, poison: int | None) -> None:
        if self.guard:
            for at in (self._base, self.address + self.nbytes):
                _call(cu.cuMemsetD8, at, GUARD_BYTE, self.guard)
        if contents is not None:
            _call(cu.cuMemcpyHtoD, self.address, _pointer(contents), self.nbytes)
        elif poison is not None:
            _call(cu.cuMemsetD8, self.address, poison, self.nbytes)

    def read(self) -> bytes:
        return _download(self.address, self.nbytes)

    def guards_intact(self) -> bool:
        ends = (self._base, self.address + self.nbytes) if self.guard else ()
        return all(_download(at, self.guard) == bytes([GUARD_BYTE]) * self.guard for at in ends)

    def free(self) -> None:
        (cu.cuMemFreeHost if self.kind in ("host", "pageable") else cu.cuMemFree)(self._base)


def _issue(op, function, memory, streams, events, program) -> None:
    match op:
        case Launch():
            _launch(op, *function, memory, streams[op.stream])
        case Copy():
            to, stream = memory[op.to.buffer].address + op.to.offset, streams[op.stream]
            if op.source is None:
                _call(cu.cuMemcpyHtoDAsync, to, _pointer(program.blobs[op.blob]), op.nbytes, stream)
            else:
                _call(cu.cuMemcpyAsync, to, memory[op.source.buffer].address + op.source.offset, op.nbytes, stream)
            if op.blocking:
                _call(cu.cuStreamSynchronize, stream)
        case Fill():
            call = {1: cu.cuMemsetD8Async, 2: cu.cuMemsetD16Async, 4: cu.cuMemsetD32Async}[op.width]
            _call(call, memory[op.to.buffer].address + op.to.offset, op.value, op.count, streams[op.stream])
        case Record():
            event = events.setdefault(op.event, None) or _call(cu.cuEventCreate, 2)
            events[op.event] = event
            _call(cu.cuEventRecord, event, streams[op.stream])
        case Wait() if op.event in events:
            _call(cu.cuStreamWaitEvent, streams[op.stream], events[op.event], 0)
        case Sync(what="stream"):
            _call(cu.cuStreamSynchronize, streams[op.id])
        case Sync(what="event") if op.id in events:
            _call(cu.cuEventSynchronize, events[op.id])
        case Sync(what="context"):
            _call(cu.cuCtxSynchronize)


def _launch(op: Launch, function, params, memory, stream) -> None:
    block = bytearray(op.args)
    for r in op.relocations:
        block[r.offset : r.offset + 8] = (memory[r.buffer].address + r.addend).to_bytes(8, "little")
    raw = (ctypes.c_ubyte * max(1, len(block))).from_buffer(block or bytearray(1))
    pointers = (ctypes.c_void_p * max(1, len(params)))(*(ctypes.addressof(raw) + offset for offset, _ in params))
    if op.cooperative:
        sizes = (*op.grid, *op.block, op.shared)
        _call(cu.cuLaunchCooperativeKernel, function, *sizes, stream, ctypes.addressof(pointers))
    else:
        _call(cu.cuLaunchKernel, function, *op.grid, *op.block, op.shared, stream, ctypes.addressof(pointers), 0)


def _parameters(kernel) -> list[tuple[int, int]]:
    """(offset, size) of each parameter, as the driver has it from the code."""
    found = []
    while True:
        error, offset, size = cu.cuKernelGetParamInfo(kernel, len(found))
        if error:
            return found
        found.append((int(offset), int(size)))


def _stream(kind: str):
    if kind == "legacy":
        return cu.CUstream(0)
    if kind == "per-thread":
        return cu.CUstream(cu.CU_STREAM_PER_THREAD)
    return _call(cu.cuStreamCreate, 1 if kind == "non-blocking" else 0)


def _pointer(contents: bytes) -> int:
    return np.frombuffer(contents, np.uint8).ctypes.data


def _download(address: int, nbytes: int) -> bytes:
    out = np.empty(nbytes, np.uint8)
    _call(cu.cuMemcpyDtoH, out.ctypes.data, address, nbytes)
    return out.tobytes()


def _call(function, *args):
    """A driver call that must succeed; its result without the error code."""
    error, *rest = function(*args)
    if error != cu.CUresult.CUDA_SUCCESS:
        raise DeviceError(function.__name__, error.name)
    return rest[0] if len(rest) == 1 else (rest or None)
