"""Event Management. Times are the modelled clock's."""

from __future__ import annotations

from grader.vgpu.driver import errors, recorder
from grader.vgpu.driver.abi import entry, f32, out, ptr, u32, u64
from grader.vgpu.driver.clock import CLOCK, EVENT_US, QUERY_US, SYNC_US
from grader.vgpu.driver.errors import CudaError
from grader.vgpu.driver.queue import Op, Stream, newest, ready, submit, wait
from grader.vgpu.driver.state import CONTEXT, EVENT, STREAM, Context, Object, driver
from grader.vgpu.driver.work import EventRecord

BLOCKING_SYNC, DISABLE_TIMING, INTERPROCESS = 1, 2, 4
RECORD_EXTERNAL = 1


class Event(Object):
    """The newest record of it, in a stream or in a capture."""

    def __init__(self, context: Context, flags: int):
        super().__init__()
        self.context = context
        self.timing = not flags & DISABLE_TIMING
        self.number = driver.number("event")
        self.op: Op | None = None
        self.captured = None  # the capture in which it was recorded last
        self.captured_deps: set = set()
        if recorder.recording():
            recorder.emit("event_create", context.device.ordinal, event=self.number, timing=self.timing)

    def not_captured(self) -> None:
        """Raise CudaError if the newest record is in a capture: there is nothing to wait for."""
        if self.captured is not None:
            raise CudaError(errors.CAPTURED_EVENT)


@entry("cuEventCreate", out(u64), u32)
def event_create(ctx, flags):
    if flags & ~(BLOCKING_SYNC | DISABLE_TIMING | INTERPROCESS):
        raise CudaError(errors.INVALID_VALUE)
    if flags & INTERPROCESS:
        if not flags & DISABLE_TIMING:
            raise CudaError(errors.INVALID_VALUE)
        raise CudaError(errors.NOT_SUPPORTED, "the virtual GPU belongs to one process: no interprocess events")
    CLOCK.spend(EVENT_US)
    return Event(ctx, flags).handle


def _record(stream: Stream, event: Event, flags: int) -> None:
    if flags & ~RECORD_EXTERNAL:
        raise CudaError(errors.INVALID_VALUE)
    if event.context.device is not stream.context.device:
        raise CudaError(errors.INVALID_HANDLE)
    if stream.capture is not None:
        if flags & RECORD_EXTERNAL:
            stream.capture.add(stream, EventRecord(event))
        else:
            stream.capture.check()
            event.captured, event.captured_deps = stream.capture, set(stream.capture_deps)
        return
    event.captured, event.captured_deps = None, set()
    event.op = submit(stream, EventRecord(event), host_us=EVENT_US)


@entry("cuEventRecord", EVENT, STREAM)
def event_record(ctx, event, stream):
    _record(stream, event, 0)


@entry("cuEventRecordWithFlags", EVENT, STREAM, u32)
def event_record_with_flags(ctx, event, stream, flags):
    _record(stream, event, flags)


@entry("cuEventQuery", EVENT)
def event_query(ctx, event):
    event.not_captured()
    CLOCK.spend(QUERY_US)
    done = ready(event.op)
    if recorder.recording():
        recorder.emit("query", ctx.device.ordinal, kind="event", id=event.number, ready=done)
    if not done:
        raise CudaError(errors.NOT_READY)


@entry("cuEventSynchronize", EVENT)
def event_synchronize(ctx, event):
    event.not_captured()
    from grader.vgpu.driver.capture import refuse_unsafe_call

    refuse_unsafe_call()
    CLOCK.spend(SYNC_US)
    if recorder.recording():
        recorder.emit("sync", ctx.device.ordinal, kind="event", id=event.number)
    wait(event.op)


@entry("cuEventDestroy", EVENT)
def event_destroy(ctx, event):
    if recorder.recording():
        recorder.emit("event_destroy", ctx.device.ordinal, event=event.number)
    event.release()


@entry("cuEventElapsedTime", out(f32), EVENT, EVENT)
def event_elapsed_time(ctx, start, end):
    """Milliseconds between two events that have completed."""
    for event in (start, end):
        event.not_captured()
        if not event.timing or event.op is None:
            raise CudaError(errors.INVALID_HANDLE)
    if start.context.device is not end.context.device:
        raise CudaError(errors.INVALID_HANDLE)
    for event in (start, end):
        if not event.op.done:
            raise CudaError(errors.NOT_READY)
    if recorder.recording():
        recorder.emit("elapsed", ctx.device.ordinal, start=start.number, end=end.number)
    return (end.op.end_us - start.op.end_us) / 1e3


@entry("cuCtxRecordEvent", CONTEXT, EVENT)
def ctx_record_event(ctx, context, event):
    """The event completes when all work of the context has."""
    event.captured = None
    event.op = submit(context.legacy, EventRecord(event), deps=newest(context), host_us=EVENT_US)


@entry("cuIpcGetEventHandle", ptr, EVENT)
def ipc_get_event_handle(ctx, handle, event):
    raise CudaError(errors.NOT_SUPPORTED, "the virtual GPU belongs to one process: no interprocess events")
