"""What a program finds when it is replayed: its memory and its streams, on the devices that it uses."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack

from cuda.bindings import driver as cu

from grader import program as p
from grader.devices.driver import call
from grader.devices.memory import Memory
from grader.program import Program


class Contexts:
    """The primary contexts of the devices that a program uses. The first, the player's own, is current to begin with."""

    def __init__(self, contexts: list):
        self._all, self._current = contexts, 0
        call(cu.cuCtxSetCurrent, contexts[0])

    def use(self, device: int) -> None:
        """What is asked for next, is asked of this device."""
        if device != self._current:
            call(cu.cuCtxSetCurrent, self._all[device])
            self._current = device

    def each(self) -> Iterator[int]:
        """Every device in turn, and then the first again."""
        for device in range(len(self._all)):
            self.use(device)
            yield device
        self.use(0)

    def __getitem__(self, device: int):
        return self._all[device]


class Stage:
    """Memory and streams of one replay; on leaving, all that was made is given back, also where a part is missing.

    guard: bytes on either side of each buffer. flush: bytes of scratch memory that empty the L2 cache; 0: none, and
    nobody looks at the time. DeviceError where there is too little memory.
    """

    def __init__(self, program: Program, contexts: Contexts, guard: int, flush: int):
        self._program, self.contexts = program, contexts
        # Pools of pinned and managed memory cost next to nothing: what comes from one is there from the start.
        self._later = {o.buffer for o in program.ops if isinstance(o, p.Alloc) and not pooled(program, o)}
        with ExitStack() as made:  # what was made goes back where the rest cannot be made
            self._made = made
            made.callback(contexts.use, 0)
            self.memory = [self._buffer(b, guard, i in self._later) for i, b in enumerate(program.buffers)]
            self.streams = [self._stream(i) for i in range(len(program.streams))]
            contexts.use(0)
            self.scratch = self._buffer(p.Buffer(flush, "device", "temp"), 0) if flush else None
            self._made = made.pop_all()

    def __enter__(self) -> "Stage":
        return self

    def __exit__(self, *raised) -> None:
        self._made.close()

    def prepare(self, inputs: Mapping[str, bytes], poison: int | None, name: Callable[[int, str], None]) -> None:
        """Fill everything that is there from the start; `name` is told what lies where. See `Player.play`."""
        for i, (b, m) in enumerate(self._pairs()):
            if i in self._later:
                continue
            self.contexts.use(b.device)
            contents = inputs.get(b.name) if b.role in ("input", "inout") else None
            m.prepare(self._program.blobs[b.initial] if b.initial is not None else contents, poison)
            if b.name and b.kind != "pageable":
                name(m.address, f"array {b.name} of shape {b.shape}")
        self.contexts.use(0)

    def read(self, *roles: str) -> dict[str, bytes]:
        """The bytes of the exercise's arrays that have one of these roles, by name."""
        return {n: self.memory[i].read() for n, i in self._program.named(*roles).items()}

    def places(self, *roles: str) -> list[tuple[int, int]]:
        """(address, bytes) of the exercise's arrays that have one of these roles."""
        return [(self.memory[i].address, self.memory[i].nbytes) for i in self._program.named(*roles).values()]

    def overrun(self) -> tuple[str, ...]:
        """Names of the buffers that something was written next to."""
        return tuple(b.name for b, m in self._pairs() if not m.guards_intact())

    def _pairs(self) -> Iterator[tuple[p.Buffer, Memory]]:
        return zip(self._program.buffers, self.memory, strict=True)

    def _buffer(self, buffer: p.Buffer, guard: int, later: bool = False) -> Memory:
        self.contexts.use(buffer.device)
        memory = Memory(buffer, guard, later)
        self._made.callback(self._give_back, buffer.device, memory.free)
        return memory

    def _stream(self, number: int):
        program = self._program
        kind, device = program.streams[number], program.device_of_stream(number)
        if kind == "legacy":
            return cu.CUstream(0)
        if kind == "per-thread":
            return cu.CUstream(cu.CU_STREAM_PER_THREAD)
        self.contexts.use(device)
        priority = program.priorities[number] if program.priorities else 0
        stream = call(cu.cuStreamCreateWithPriority, 1 if kind == "non-blocking" else 0, priority)
        self._made.callback(self._give_back, device, lambda: cu.cuStreamDestroy(stream))
        return stream

    def _give_back(self, device: int, free: Callable[[], object]) -> None:
        self.contexts.use(device)
        free()


def pooled(program: Program, op: p.Alloc | p.Free) -> bool:
    """It is about memory of the host's from a pool."""
    return op.stream is not None and program.buffers[op.buffer].kind != "device"
