"""Streams as queues, and when what is queued is executed: as late as the API allows.

Submitting work only appends it. `complete()` executes work and all that it depends on, in the order of submission, and
is called by whatever has to wait: a synchronisation, a copy that the host waits for, a free. A query of unfinished work
answers "not ready" once and executes it when asked again.

The legacy default stream waits for all earlier work of the context's blocking streams, and they for its (Driver API
manual, Stream synchronization behavior); non-blocking streams take no part in that.
"""

from __future__ import annotations

import heapq
import itertools

from grader.vgpu.driver import errors, paging, recorder
from grader.vgpu.driver.abi import say
from grader.vgpu.driver.clock import CALL_US, CLOCK
from grader.vgpu.driver.errors import CudaError
from grader.vgpu.driver.guard import GUARD
from grader.vgpu.driver.state import Context, Object, driver
from grader.vgpu.driver.watch import WATCH

_sequence = itertools.count(1)
# Stream priorities "have no effect on host-to-device and device-to-host memory operations" (cuStreamCreateWithPriority).
# Such copies are put on their engines as soon as they are ready, in the order of submission.
_WITHOUT_PRIORITY = ("h2d", "d2h")
_FIRST = -100  # before every priority


class Op:
    """One piece of work in a stream."""

    __slots__ = (
        "branching",
        "deps",
        "done",
        "end_us",
        "numbers",
        "outer",
        "point",
        "polled",
        "seq",
        "start_us",
        "stream",
        "submit_us",
        "work",
    )

    def __init__(self, stream: Stream, work, deps: list[Op], submit_us: float):
        self.seq = next(_sequence)
        self.stream = stream
        self.work = work
        self.deps = deps  # must be executed first; a finished one still says when it ended
        self.done = False
        self.polled = False  # a query has answered "not ready" for it
        self.point = None  # its place in the order of the program, where racecheck watches
        self.outer = None  # the graph launch of which it is a node
        self.numbers = None  # of a graph launch: those that its nodes get
        self.branching = False  # nodes of its graph launch are not all in one order
        self.submit_us = submit_us
        self.start_us = self.end_us = 0.0

    @property
    def ready_us(self) -> float:
        """When it could start, engines aside."""
        return max(self.submit_us, *(dep.end_us for dep in self.deps)) if self.deps else self.submit_us


class Stream(Object):
    """A queue of work. `kind`: "legacy", "per_thread", "blocking" or "nonblocking"."""

    def __init__(self, context: Context, kind: str, priority: int = 0, number: int | None = None):
        super().__init__()
        self.context = context
        self.kind = kind
        self.priority = priority
        self.number = driver.number("stream") if number is None else number
        self.last: Op | None = None
        self.asked = 0  # operations so far
        self.pending: list[Op] = []
        self.capture = None  # capture.Capture while capturing
        self.capture_deps: set = set()  # the nodes that the next captured one depends on
        self.attributes: dict[int, bytes] = {}
        context.streams.add(self)
        if kind != "legacy" and recorder.recording():
            sms = context.green.sms if context.green else None
            recorder.emit("stream", context.device.ordinal, stream=self.number, kind=kind, priority=priority, sms=sms)

    @property
    def blocking(self) -> bool:
        """Takes part in the legacy default stream's implicit synchronisation."""
        return self.kind in ("blocking", "per_thread")

    def push(self, work, deps: list[Op] | None = None, host_us: float = CALL_US) -> Op:
        """Queue work after what is in the stream, and after `deps`; the host spends `host_us` on the call."""
        deps = list(deps or ())
        if self.last is not None:
            deps.append(self.last)
        if self.kind == "legacy":
            deps += newest(self.context, blocking=True)
        elif self.kind != "nonblocking" and self.context.legacy.last is not None:
            deps.append(self.context.legacy.last)
        op = Op(self, work, deps, CLOCK.spend(host_us))
        WATCH.asked(op, work)
        self.last = op
        self.pending.append(op)
        GUARD.asked(op, work)
        return op

    def title(self) -> str:
        """In words."""
        names = {"legacy": "the default stream", "per_thread": "a thread's default stream"}
        return names.get(self.kind, f"stream {self.number}")

    def retire(self) -> None:
        """It is destroyed. Whoever waits for all streams waits for its work as well."""
        context = self.context
        context.streams.discard(self)
        last = () if self.last is None else (self.last,)
        ops = (*context.retired, *last)
        context.retired = [op for op in ops if op.end_us > CLOCK.host_us or not WATCH.knows(op)]
        self.release()

    def drop(self) -> None:
        """Forget what is queued: the context is going, or has faulted."""
        for op in self.pending:
            op.done, op.deps = True, []
            GUARD.over(op)
        self.pending.clear()


def newest(context: Context, blocking: bool = False) -> list[Op]:
    """The last operation of each stream, or of each one that the legacy stream waits for; of destroyed ones too."""
    ops = [stream.last for stream in context.streams if stream.last is not None] + context.retired
    return [op for op in ops if op.stream.blocking] if blocking else ops


def submit(stream: Stream, work, deps: list[Op] | None = None, host_us: float = CALL_US, **told) -> Op | None:
    """Queue work in a stream, or add it to the graph that the stream is capturing (then the result is None).

    `told`: what a recording says of it beyond `work.describe()`. Raises CudaError where a capture forbids the call.
    """
    if stream.capture is not None:
        stream.capture.add(stream, work)
        return None
    refuse_implicit_capture(stream)
    if recorder.recording():
        from grader.vgpu.driver.memory import tell_host_writes

        tell_host_writes()
        recorder.emit(device=stream.context.device.ordinal, **work.describe(), stream=stream.number, **told)
    return stream.push(work, deps, host_us)


def refuse_implicit_capture(stream: Stream) -> None:
    """The legacy stream would have to wait for a capturing blocking stream: an error, and it ends that capture."""
    if stream.kind != "legacy":
        return
    for other in stream.context.streams:
        if other.capture is not None and other.blocking and not other.capture.relaxed_for_this_thread():
            other.capture.invalidate()
            raise CudaError(errors.STREAM_CAPTURE_IMPLICIT)


def complete(*ops: Op | None) -> None:
    """Execute these and all that they depend on. The host's clock does not move: `wait` does that as well."""
    with WATCH.unwaited():
        _complete(*ops)


def _complete(*ops: Op | None) -> None:
    wanted: dict[int, Op] = {}
    stack = [op for op in ops if op is not None and not op.done]
    if not stack:
        return
    while stack:
        op = stack.pop()
        if op.seq not in wanted:
            wanted[op.seq] = op
            stack += [dep for dep in op.deps if not dep.done]
    if recorder.recording():
        from grader.vgpu.driver.memory import tell_host_writes

        tell_host_writes()
    with paging.opened():
        for op in _in_turn(wanted):
            _execute(op)
        if recorder.recording():
            from grader.vgpu.driver.memory import note_device_writes

            note_device_writes()


def _in_turn(wanted: dict[int, Op]) -> list[Op]:
    """In the order of submission; where streams' priorities differ, the kernels that are ready of the highest one first."""
    if len({op.stream.priority for op in wanted.values()}) < 2:
        return [wanted[seq] for seq in sorted(wanted)]
    waits_for = {seq: {dep.seq for dep in op.deps if dep.seq in wanted} for seq, op in wanted.items()}
    followers: dict[int, list[int]] = {}
    for seq, deps in waits_for.items():
        for dep in deps:
            followers.setdefault(dep, []).append(seq)
    ready = [(_turn(wanted[seq]), seq) for seq, deps in waits_for.items() if not deps]
    heapq.heapify(ready)
    out = []
    while ready:
        _, seq = heapq.heappop(ready)
        out.append(wanted[seq])
        for other in followers.get(seq, ()):
            waits_for[other].discard(seq)
            if not waits_for[other]:
                heapq.heappush(ready, (_turn(wanted[other]), other))
    return out


def _turn(op: Op) -> int:
    return _FIRST if op.work.kind in _WITHOUT_PRIORITY else op.stream.priority


def _execute(op: Op) -> None:
    if op.done:  # dropped by a fault
        return
    stream = op.stream
    try:
        WATCH.run(op, op.work)
    except CudaError as error:
        if error.why:
            say(error.why)
        stream.context.fault = stream.context.fault or error.code
        for other in stream.context.streams:
            other.drop()
    finally:
        op.done = True
        op.deps = []
        GUARD.over(op)
        if op in stream.pending:
            stream.pending.remove(op)  # the first: within a stream work is executed in order


def wait(*ops: Op | None) -> None:
    """Execute these, let the host's clock wait for them, and raise the fault that executing them ended in, if any."""
    _complete(*ops)
    WATCH.waited(*ops)
    _await(*ops)


def _await(*ops: Op | None) -> None:
    for op in ops:
        if op is not None:
            CLOCK.wait_until(op.end_us)
            op.stream.context.check()


def wait_for_context(context: Context) -> None:
    """Execute everything that the context has queued, and wait for it."""
    wait(*newest(context))
    context.retired.clear()
    context.check()


def drain(context: Context) -> None:
    """The same for a call that waits although the manual does not promise it: racecheck takes it for no order."""
    ops = [stream.last for stream in context.streams]
    complete(*ops)
    _await(*ops)
    context.check()


def ready(op: Op | None) -> bool:
    """A query: False the first time that it meets unfinished work; the next time the work is executed."""
    if op is None:
        return True
    if not op.done and not op.polled:
        op.polled = True
        return False
    wait(op)
    return True
