"""Stream Management."""

from __future__ import annotations

import ctypes

from grader.vgpu.driver import errors, recorder
from grader.vgpu.driver.abi import entry, i32, out, ptr, u32, u64
from grader.vgpu.driver.clock import CLOCK, EVENT_US, QUERY_US, SYNC_US
from grader.vgpu.driver.errors import CudaError
from grader.vgpu.driver.launch import host_function
from grader.vgpu.driver.memory import find
from grader.vgpu.driver.queue import Stream, complete, newest, ready, submit, wait
from grader.vgpu.driver.state import EVENT, STREAM, Context, refuse_in_callback
from grader.vgpu.driver.work import EventWait, HostFunction

NON_BLOCKING = 1
LEAST_PRIORITY, GREATEST_PRIORITY = 0, -5  # as on cards of cc 7.0 and newer
WAIT_EXTERNAL = 1


def create(ctx: Context, flags: int, priority: int = 0) -> Stream:
    """A new stream. A priority outside the range is clamped, as the manual says."""
    if flags & ~NON_BLOCKING:
        raise CudaError(errors.INVALID_VALUE)
    priority = max(GREATEST_PRIORITY, min(LEAST_PRIORITY, priority))
    CLOCK.spend(EVENT_US)
    return Stream(ctx, "nonblocking" if flags & NON_BLOCKING else "blocking", priority)


@entry("cuStreamCreate", out(u64), u32)
def stream_create(ctx, flags):
    return create(ctx, flags).handle


@entry("cuStreamCreateWithPriority", out(u64), u32, i32)
def stream_create_with_priority(ctx, flags, priority):
    return create(ctx, flags, priority).handle


@entry("cuStreamDestroy", STREAM)
def stream_destroy(ctx, stream):
    """Work that is queued still runs; the handle is gone at once."""
    if stream.kind in ("legacy", "per_thread"):
        raise CudaError(errors.INVALID_HANDLE)
    if stream.capture is not None:
        stream.capture.invalidate()
        stream.capture = None
    complete(stream.last)  # nothing could wait for it later
    if recorder.recording():
        recorder.emit("stream_destroy", ctx.device.ordinal, stream=stream.number)
    stream.retire()


def _not_capturing(stream: Stream) -> None:
    """Waiting for, or asking after, a stream that captures is an error that ends the capture."""
    if stream.capture is not None:
        stream.capture.invalidate()
        raise CudaError(errors.STREAM_CAPTURE_UNSUPPORTED)
    if stream.kind == "legacy":
        from grader.vgpu.driver.queue import refuse_implicit_capture

        refuse_implicit_capture(stream)


# A stream's handle says which context it is in; only handle 0 needs a current one to have a meaning
# (https://github.com/NVIDIA/cccl/pull/10889, and https://github.com/NVIDIA/cudf/pull/24147 for what happens without).
@entry("cuStreamSynchronize", STREAM, context=False)
def stream_synchronize(stream):
    refuse_in_callback()
    stream.context.check()
    _not_capturing(stream)
    CLOCK.spend(SYNC_US)
    if recorder.recording():
        recorder.emit("sync", stream.context.device.ordinal, kind="stream", id=stream.number)
    ops = [stream.last]
    if stream.kind == "legacy":  # whoever waits for it waits for what it waits for
        ops += newest(stream.context, blocking=True)
    wait(*ops)


@entry("cuStreamQuery", STREAM, context=False)
def stream_query(stream):
    refuse_in_callback()
    stream.context.check()
    _not_capturing(stream)
    CLOCK.spend(QUERY_US)
    done = ready(stream.last)
    if recorder.recording():
        recorder.emit("query", stream.context.device.ordinal, kind="stream", id=stream.number, ready=done)
    if not done:
        raise CudaError(errors.NOT_READY)


@entry("cuStreamWaitEvent", STREAM, EVENT, u32)
def stream_wait_event(ctx, stream, event, flags):
    if flags & ~WAIT_EXTERNAL:
        raise CudaError(errors.INVALID_VALUE)
    if event.captured is not None and not flags & WAIT_EXTERNAL:
        event.captured.joined_by(stream, event)
        return
    if stream.capture is not None:
        if not flags & WAIT_EXTERNAL:
            stream.capture.invalidate()
            raise CudaError(errors.STREAM_CAPTURE_ISOLATION)
        stream.capture.add(stream, EventWait(event))
        return
    deps = [event.op] if event.op is not None else []
    submit(stream, EventWait(event), deps=deps, host_us=EVENT_US)


@entry("cuStreamAddCallback", STREAM, ptr, ptr, u32)
def stream_add_callback(ctx, stream, function, data, flags):
    if flags or not function:
        raise CudaError(errors.INVALID_VALUE)
    if stream.capture is not None:
        stream.capture.invalidate()
        raise CudaError(errors.STREAM_CAPTURE_UNSUPPORTED)
    host_function(stream, HostFunction(function, data, stream.handle))


@entry("cuStreamGetPriority", STREAM, out(i32))
def stream_get_priority(ctx, stream):
    return stream.priority


@entry("cuStreamGetFlags", STREAM, out(u32))
def stream_get_flags(ctx, stream):
    return NON_BLOCKING if stream.kind == "nonblocking" else 0


@entry("cuStreamGetId", STREAM, out(u64))
def stream_get_id(ctx, stream):
    return stream.handle


@entry("cuStreamGetCtx", STREAM, out(u64))
def stream_get_ctx(ctx, stream):
    return stream.context.handle


@entry("cuStreamGetCtx", STREAM, out(u64), out(u64), version=12050)
def stream_get_ctx_v2(ctx, stream):
    """The context, or for a stream of a green context that one."""
    green = stream.context.green
    return (0, green.handle) if green else (stream.context.handle, 0)


@entry("cuStreamGetDevice", STREAM, out(i32))
def stream_get_device(ctx, stream):
    return stream.context.device.ordinal


@entry("cuCtxGetStreamPriorityRange", ptr, ptr)
def ctx_get_stream_priority_range(ctx, least, greatest):
    for where, value in ((least, LEAST_PRIORITY), (greatest, GREATEST_PRIORITY)):
        if where:
            ctypes.c_int.from_address(where).value = value


@entry("cuStreamAttachMemAsync", STREAM, u64, u64, u32)
def stream_attach_mem_async(ctx, stream, address, nbytes, flags):
    """Visibility of managed memory: with concurrent managed access it restricts nothing."""
    allocation = find(address)
    if (
        allocation is None
        or allocation.kind != "managed"
        or flags not in (1, 2, 4)
        or nbytes not in (0, allocation.nbytes)
    ):
        raise CudaError(errors.INVALID_VALUE)


@entry("cuStreamGetAttribute", STREAM, u32, ptr)
def stream_get_attribute(ctx, stream, which, value):
    if not value:
        raise CudaError(errors.INVALID_VALUE)
    data = stream.attributes.get(which, bytes(64))
    if which == 8:  # priority
        data = stream.priority.to_bytes(4, "little", signed=True).ljust(64, b"\0")
    ctypes.memmove(value, data, 64)


@entry("cuStreamSetAttribute", STREAM, u32, ptr)
def stream_set_attribute(ctx, stream, which, value):
    """Access policy, synchronisation policy, memory sync domains: hints that change no result."""
    if not value or which not in (1, 3, 8, 9, 10):
        raise CudaError(errors.INVALID_VALUE)
    data = ctypes.string_at(value, 64)
    if which == 8:
        stream.priority = int.from_bytes(data[:4], "little", signed=True)
    stream.attributes[which] = data


@entry("cuStreamCopyAttributes", STREAM, STREAM)
def stream_copy_attributes(ctx, dst, src):
    dst.attributes = dict(src.attributes)
    dst.priority = src.priority
