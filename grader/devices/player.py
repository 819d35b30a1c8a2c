"""Replay a `Program` through the CUDA driver API: the same code on the virtual and on a real GPU.

Runs in a process of its own in which no student Python ever ran. Only addresses that this process allocated reach the
device: the program's own are (buffer, offset).
"""

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cuda.bindings import driver as cu

from grader import program as p
from grader.devices.driver import DeviceError, call
from grader.devices.memory import Memory
from grader.devices.stage import Contexts, Stage
from grader.devices.steps import Step, Steps, synchronize
from grader.program import Launch, Program, work_of


@dataclass(frozen=True)
class Played:
    """One replay, as far as any driver can tell."""

    outputs: dict[str, bytes]
    seconds: float
    host_seconds: float  # by the host's clock, from before the flush until the whole device is idle
    overrun: tuple[str, ...]
    changed: tuple[str, ...]
    late: tuple[str, ...]  # outputs at the host that were not complete when the last call returned; if asked for


class Unwatched:
    """What a replay tells whoever watches it: here nobody does. `probe.VirtualProbe` has the same names."""

    def name(self, address: int, label: str) -> None:
        """What lies where."""

    def mark(self) -> None:
        """The timed part starts or ends here."""

    def at(self, place: tuple[str, int] | None) -> None:
        """File and line of the submission whose operation comes next, unless time is taken; None: no more of them."""

    def results(self, places: list[tuple[int, int]]) -> None:
        """Addresses and sizes of what somebody looks at afterwards."""

    def wrote(self, address: int, nbytes: int, source: int | None = None) -> None:
        """The host's own code has written so many bytes; source: it has copied them from there."""


@dataclass
class Player:
    """A context on the device `ordinal`, and on those after it for programs that use several.

    `assemble` turns PTX into what the driver is given (PTX itself, or a cubin).
    """

    ordinal: int = 0
    assemble: Callable[[bytes], bytes] = lambda ptx: ptx
    watcher: Unwatched = field(default_factory=Unwatched)  # or a VirtualProbe
    _libraries: dict[str, object] = field(default_factory=dict)
    _functions: dict[tuple[int, str, str], tuple] = field(default_factory=dict)

    def __post_init__(self):
        call(cu.cuInit, 0)
        self._device = call(cu.cuDeviceGet, self.ordinal)
        self._contexts = [call(cu.cuDevicePrimaryCtxRetain, self._device)]
        call(cu.cuCtxSetCurrent, self._contexts[0])

    def _on(self, devices: int) -> Contexts:
        """The contexts of so many devices."""
        there = call(cu.cuDeviceGetCount) - self.ordinal
        if devices > there:
            raise DeviceError(f"the program uses {devices} GPUs, and there {'is' if there == 1 else 'are'} {there}", "")
        while len(self._contexts) < devices:
            device = call(cu.cuDeviceGet, self.ordinal + len(self._contexts))
            self._contexts.append(call(cu.cuDevicePrimaryCtxRetain, device))
        return Contexts(self._contexts[:devices])

    def play(
        self, program: Program, inputs: Mapping[str, bytes], poison: int | None, guard: int = 0, flush: int = 0
    ) -> Played:
        """Run the timed part once. DeviceError when the device faults; the context is then of no further use.

        poison: byte that fills outputs and fresh memory; None leaves new memory as the allocator made it (so that the
        virtual GPU still knows that nobody wrote it). guard: bytes on either side of each buffer that must survive.
        flush: bytes that are written just before, to empty the L2 cache and to keep the launch queue ahead of the GPU;
        0: nobody looks at the time, so what the host waits for may come in the order that hides least mistakes.
        """
        contexts = self._on(program.devices)
        functions = {}
        for device in contexts.each():
            functions |= self._load(program, device)
        with Stage(program, contexts, guard, flush) as stage:
            stage.prepare(inputs, poison, self.watcher.name)
            if program.clock == "host":  # a kernel is all that there is to it
                self.watcher.results(stage.places("output", "inout"))
            steps = Steps(program, stage, functions, self.ordinal, not flush, self.watcher.wrote)
            try:
                prepared = steps.prepare()
                for _ in contexts.each():
                    call(cu.cuCtxSynchronize)
                take = self._by_the_hosts_clock if program.clock == "host" else self._between_events
                begun = time.perf_counter()
                seconds, late = take(program, prepared, stage)
                host_seconds = time.perf_counter() - begun
                outputs, after = stage.read("output", "inout"), stage.read("input")
                changed = tuple(n for n, contents in after.items() if contents != inputs[n])
                return Played(outputs, seconds, host_seconds, stage.overrun(), changed, late)
            finally:
                steps.close()

    def _between_events(self, program: Program, steps: list[Step], stage: Stage) -> tuple[float, tuple[str, ...]]:
        """(seconds between two events, nothing too late): the launch queue is ahead of the GPU, so the host's time does
        not count."""
        start, end = (call(cu.cuEventCreate, 0) for _ in range(2))
        if stage.scratch:
            call(cu.cuMemsetD8Async, stage.scratch.address, 0, stage.scratch.nbytes, 0)
        self.watcher.mark()
        call(cu.cuEventRecord, start, 0)
        apart = [s for s, kind in zip(stage.streams, program.streams, strict=True) if kind == "non-blocking"]
        for stream in apart:
            call(cu.cuStreamWaitEvent, stream, start, 0)
        for step in steps:
            step()
        dones = [call(cu.cuEventCreate, 2) for _ in apart]
        for stream, done in zip(apart, dones, strict=True):  # the closing time stamp waits for every stream
            call(cu.cuEventRecord, done, stream)
            call(cu.cuStreamWaitEvent, 0, done, 0)
        call(cu.cuEventRecord, end, 0)
        call(cu.cuCtxSynchronize)
        self.watcher.mark()
        seconds = call(cu.cuEventElapsedTime, start, end) * 1e-3
        for event in (start, end, *dones):
            cu.cuEventDestroy(event)
        return seconds, ()

    def _by_the_hosts_clock(self, program: Program, steps: list[Step], stage: Stage) -> tuple[float, tuple[str, ...]]:
        """(seconds from before the first call until the device has nothing left to do, outputs that came too late).

        The device is idle at both ends, so an event there takes the host's time.
        """
        timed = stage.scratch is not None
        start, end = (call(cu.cuEventCreate, 0) for _ in range(2))
        if timed:
            call(cu.cuMemsetD8Async, stage.scratch.address, 0, stage.scratch.nbytes, 0)
            call(cu.cuCtxSynchronize)
        self.watcher.mark()
        call(cu.cuEventRecord, start, 0)
        if program.places and not timed:
            for place, step in zip(program.places, steps, strict=True):
                self.watcher.at(place)
                step()
            self.watcher.at(None)
        else:
            for step in steps:
                step()
        late: tuple[str, ...] = ()
        if not timed:
            at_host = {n: i for n, i in program.named("output", "inout").items() if self._reachable(stage.memory[i])}
            before = {n: stage.memory[i].read() for n, i in at_host.items()}
        for device in stage.contexts.each():
            own = [s for i, s in enumerate(stage.streams) if program.device_of_stream(i) == device]
            synchronize(own, backwards=not timed)
        call(cu.cuEventRecord, end, 0)
        call(cu.cuCtxSynchronize)
        self.watcher.mark()
        if not timed:
            late = tuple(n for n, i in at_host.items() if stage.memory[i].read() != before[n])
        seconds = call(cu.cuEventElapsedTime, start, end) * 1e-3
        for event in (start, end):
            cu.cuEventDestroy(event)
        return seconds, late

    def _reachable(self, memory: Memory) -> bool:
        """The host can read it while the device works."""
        attribute = cu.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS
        return memory.at_host and (
            memory.kind != "managed" or bool(call(cu.cuDeviceGetAttribute, attribute, self._device))
        )

    def _load(self, program: Program, device: int) -> dict[tuple[int, int, str], tuple]:
        """(CUfunction, parameter offsets and sizes) of every kernel that is launched on the current device, by (device,
        module, name)."""
        found: dict[tuple[int, int, str], tuple] = {}
        graphs = {op.exec: op.device for op in program.ops if isinstance(op, p.Graph)}
        there = [
            op
            for op in program.ops
            if (graphs.get(op.exec) if isinstance(op, p.GraphUpdate) else program.device_of(op)) == device
        ]
        for op in (w for each in there for w in work_of(each) if isinstance(w, Launch)):
            key = device, op.module, op.kernel
            if key not in found:
                found[key] = self._function(program.modules[op.module], op.kernel, device)
            function, params = found[key]
            need = max((offset + size for offset, size in params), default=0)
            if need > len(op.args):
                raise DeviceError(f"launch of {op.kernel} with {len(op.args)} of {need} bytes of arguments", "")
            if op.shared > 48 << 10:
                attribute = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                call(cu.cuFuncSetAttribute, function, attribute, op.shared)
        return found

    def _function(self, ptx: bytes, name: str, device: int) -> tuple:
        digest = hashlib.sha256(ptx).hexdigest()
        if digest not in self._libraries:
            image = self.assemble(ptx)
            if not image.startswith(b"\x7fELF"):
                image = image.rstrip(b"\0") + b"\0"
            self._libraries[digest] = call(cu.cuLibraryLoadData, image, [], [], 0, [], [], 0)
        key = device, digest, name
        if key not in self._functions:
            kernel = call(cu.cuLibraryGetKernel, self._libraries[digest], name.encode())
            self._functions[key] = call(cu.cuKernelGetFunction, kernel), _parameters(kernel)
        return self._functions[key]


def _parameters(kernel) -> list[tuple[int, int]]:
    """(offset, size) of each parameter, as the driver has it from the code."""
    found = []
    while True:
        error, offset, size = cu.cuKernelGetParamInfo(kernel, len(found))
        if error:
            return found
        found.append((int(offset), int(size)))


def _stream(kind: str, priority: int):
    if kind == "legacy":
        return cu.CUstream(0)
    if kind == "per-thread":
        return cu.CUstream(cu.CU_STREAM_PER_THREAD)
    return call(cu.cuStreamCreateWithPriority, 1 if kind == "non-blocking" else 0, priority)
