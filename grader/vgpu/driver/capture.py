"""Stream Management: stream capture. What is submitted to a capturing stream becomes nodes of a graph.

A capture begins in one stream and spreads to others that wait for an event recorded in it; all must be joined again,
by an event recorded in them that the first stream waits for, before it ends in that first stream.
"""

from __future__ import annotations

import ctypes
import threading

from grader.vgpu.driver import errors
from grader.vgpu.driver.abi import entry, opt, out, ptr, size, u32, u64
from grader.vgpu.driver.clock import CALL_US, CAPTURE_NODE_US, CLOCK
from grader.vgpu.driver.errors import CudaError
from grader.vgpu.driver.graph import Graph, Node, handles_at
from grader.vgpu.driver.queue import Stream
from grader.vgpu.driver.state import GRAPH, STREAM, driver

GLOBAL, THREAD_LOCAL, RELAXED = range(3)
NONE, ACTIVE, INVALIDATED = range(3)

_active: list[Capture] = []


class Capture:
    """One capture sequence."""

    def __init__(self, origin: Stream, mode: int, graph: Graph):
        self.id = driver.number("capture")
        self.origin = origin
        self.mode = mode
        self.graph = graph
        self.thread = threading.get_ident()
        self.invalid = False
        self.streams: list[Stream] = []
        self.enter(origin, set())
        _active.append(self)

    def enter(self, stream: Stream, deps: set[Node]) -> None:
        """The stream captures from now on."""
        stream.capture, stream.capture_deps = self, deps
        self.streams.append(stream)

    def relaxed_for_this_thread(self) -> bool:
        """This thread may make calls that are unsafe while this capture runs."""
        if self.mode == RELAXED or _thread_mode() == RELAXED:
            return True
        other_thread = self.thread != threading.get_ident()
        return other_thread and THREAD_LOCAL in (self.mode, _thread_mode())

    def invalidate(self) -> None:
        """An error happened: the capture must be ended, and gives no graph."""
        self.invalid = True

    def check(self) -> None:
        """Raise CudaError if it has been invalidated."""
        if self.invalid:
            raise CudaError(errors.STREAM_CAPTURE_INVALIDATED)

    def add(self, stream: Stream, work) -> Node:
        """The next node of a capturing stream."""
        self.check()
        CLOCK.spend(CAPTURE_NODE_US)
        node = self.graph.add(work, stream.capture_deps)
        stream.capture_deps = {node}
        return node

    def joined_by(self, stream: Stream, event) -> None:
        """A stream waits for an event that was recorded in this capture."""
        self.check()
        if stream.capture is None:
            if stream.kind == "legacy":
                self.invalidate()
                raise CudaError(errors.STREAM_CAPTURE_IMPLICIT)
            self.enter(stream, set(event.captured_deps))
        elif stream.capture is not self:
            self.invalidate()
            stream.capture.invalidate()
            raise CudaError(errors.STREAM_CAPTURE_MERGE)
        else:
            stream.capture_deps = stream.capture_deps | event.captured_deps

    def end(self) -> None:
        """Leave all streams. Raises CudaError UNJOINED if a stream has work that the first does not wait for."""
        for stream in self.streams:
            if stream.capture is self:
                stream.capture = None
        _active.remove(self)
        self.check()
        reached, stack = set(), list(self.origin.capture_deps)
        while stack:
            node = stack.pop()
            if node not in reached:
                reached.add(node)
                stack += node.deps
        for stream in self.streams:
            if not stream.capture_deps <= reached:
                raise CudaError(
                    errors.STREAM_CAPTURE_UNJOINED,
                    "a stream joined the capture and was not joined back: record an event in it and let the first "
                    "stream wait for that before the capture ends",
                )


def _thread_mode() -> int:
    return getattr(driver.capture_modes, "mode", GLOBAL)


def refuse_unsafe_call() -> None:
    """Raise CudaError, and invalidate captures, if a call that may synchronise is made while one forbids it."""
    for capture in _active:
        if not capture.relaxed_for_this_thread():
            capture.invalidate()
            raise CudaError(
                errors.STREAM_CAPTURE_UNSUPPORTED,
                "a call that allocates, frees or waits was made while a stream was capturing; the capture is lost",
            )


def _begin(stream: Stream, mode: int, graph: Graph | None = None, deps: set[Node] | None = None) -> Capture:
    if mode > RELAXED:
        raise CudaError(errors.INVALID_VALUE)
    if stream.kind == "legacy":
        raise CudaError(errors.STREAM_CAPTURE_UNSUPPORTED, "the legacy default stream cannot be captured")
    if stream.capture is not None:
        raise CudaError(errors.ILLEGAL_STATE)
    CLOCK.spend(CALL_US)
    capture = Capture(stream, mode, graph or Graph())
    stream.capture_deps = deps or set()
    return capture


@entry("cuStreamBeginCapture", STREAM, u32)
def stream_begin_capture(ctx, stream, mode):
    _begin(stream, mode)


@entry("cuStreamBeginCaptureToGraph", STREAM, GRAPH, ptr, ptr, size, u32)
def stream_begin_capture_to_graph(ctx, stream, graph, deps, _edges, n, mode):
    _begin(stream, mode, graph, set(handles_at(deps, n)))


@entry("cuStreamEndCapture", STREAM, out(u64))
def stream_end_capture(ctx, stream):
    capture = stream.capture
    if capture is None:
        raise CudaError(errors.ILLEGAL_STATE)
    if capture.origin is not stream:
        capture.invalidate()
        raise CudaError(errors.STREAM_CAPTURE_UNMATCHED)
    if capture.mode != RELAXED and capture.thread != threading.get_ident():
        raise CudaError(errors.STREAM_CAPTURE_WRONG_THREAD)
    CLOCK.spend(CALL_US)
    capture.end()
    return capture.graph.handle


def _status(stream: Stream) -> int:
    if stream.capture is None:
        return NONE
    return INVALIDATED if stream.capture.invalid else ACTIVE


@entry("cuStreamIsCapturing", STREAM, out(u32))
def stream_is_capturing(ctx, stream):
    return _status(stream)


_lists: dict[Stream, ctypes.Array] = {}  # what cuStreamGetCaptureInfo points a client at, until its next call


def _info(stream: Stream) -> tuple[int, int, int, int, int, int]:
    """Status, id, graph, address of the dependencies, address of their edge data, number of them."""
    status = _status(stream)
    if status != ACTIVE:
        return status, 0, 0, 0, 0, 0
    deps = sorted(node.handle for node in stream.capture_deps)
    array = _lists[stream] = (ctypes.c_uint64 * (2 * len(deps) or 1))(*deps)  # behind them, zeros: the edge data
    address = ctypes.addressof(array)
    capture = stream.capture
    return status, capture.id, capture.graph.handle, address, address + 8 * len(deps), len(deps)


@entry("cuStreamGetCaptureInfo", STREAM, out(u32), opt(u64), opt(u64), opt(u64), opt(size))
def stream_get_capture_info_v2(ctx, stream):
    status, number, graph, deps, _, n = _info(stream)
    return status, number, graph, deps, n


@entry("cuStreamGetCaptureInfo", STREAM, out(u32), opt(u64), opt(u64), opt(u64), opt(u64), opt(size), version=12030)
def stream_get_capture_info_v3(ctx, stream):
    return _info(stream)


@entry("cuStreamUpdateCaptureDependencies", STREAM, ptr, ptr, size, u32)
def stream_update_capture_dependencies(ctx, stream, deps, _edges, n, flags):
    if stream.capture is None:
        raise CudaError(errors.ILLEGAL_STATE)
    if flags > 1:
        raise CudaError(errors.INVALID_VALUE)
    nodes = set(handles_at(deps, n))
    stream.capture_deps = nodes if flags == 1 else stream.capture_deps | nodes


@entry("cuThreadExchangeStreamCaptureMode", ptr, context=False)
def thread_exchange_stream_capture_mode(where):
    if not where:
        raise CudaError(errors.INVALID_VALUE)
    mode = ctypes.c_uint.from_address(where)
    if mode.value > RELAXED:
        raise CudaError(errors.INVALID_VALUE)
    mode.value, driver.capture_modes.mode = _thread_mode(), mode.value
