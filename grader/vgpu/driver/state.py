"""What the driver knows: devices, contexts, handles, and which context each thread has current."""

from __future__ import annotations

import functools
import hashlib
import importlib
import itertools
import os
import threading
from collections.abc import Callable
from types import SimpleNamespace

from grader.vgpu import devices
from grader.vgpu.driver import errors
from grader.vgpu.driver.abi import LEGACY_DEFAULT_STREAM, LOCK, PER_THREAD_DEFAULT_STREAM, Param, i32, u64
from grader.vgpu.driver.clock import Engine, Resource
from grader.vgpu.driver.errors import CudaError
from grader.vgpu.ranges import Ranges

CUDA_VERSION = 13050  # of the driver that this is like: that of the cuda.h which it was written from


class Object:
    """Anything that a client holds a handle of. Handles are never valid addresses and are never reused."""

    def __init__(self):
        self.handle = driver.new_handle(self)
        self.alive = True

    def release(self) -> None:
        """The handle means nothing from now on."""
        self.alive = False
        driver.handles.pop(self.handle, None)


class Device:
    """One virtual device: its card and its engines, shared by all of its contexts."""

    def __init__(self, ordinal: int, card: devices.Card, fabric):
        self.ordinal = ordinal  # CUDA_VISIBLE_DEVICES may change it
        self.place = ordinal  # in the machine
        self.card = card
        self.fabric = fabric  # of the machine: fabric.Fabric
        self.attributes = devices.attributes(card, ordinal)
        self.engines = {name: Engine() for name in ("h2d", "d2h", "host")}
        # The links have a part for each direction; "in" and "out" are PCIe. `fabric` knows what lies behind them.
        names = ("sms", "memory", "in", "out", "nvlink in", "nvlink out")
        self.resources = {name: Resource() for name in names}
        self.primary: Context | None = None  # None while it is inactive
        self.primary_handle = 0  # the same whenever it is made again
        self.primary_references = 0
        self.primary_flags = 0
        self.used_bytes = 0  # device memory that is allocated now
        self.default_pool = None
        self.pool = None  # the pool that cuMemAllocAsync takes from
        digest = hashlib.sha256(f"{card.key} {ordinal}".encode()).digest()
        self.uuid = digest[:16]  # the same in every process

    def activate_primary(self) -> Context:
        """The primary context, made now if it is inactive."""
        if self.primary is None:
            self.primary = fresh = Context(self, self.primary_flags)
            if self.primary_handle:
                fresh.release()
                fresh.handle, fresh.alive = self.primary_handle, True
                driver.handles[fresh.handle] = fresh
            self.primary_handle = fresh.handle
        return self.primary

    @property
    def pci_bus_id(self) -> str:
        """As `nvidia-smi` prints it."""
        return f"{self.attributes[50]:08X}:{self.attributes[33]:02X}:{self.attributes[34]:02X}.0"


class Context(Object):
    """A CUDA context: memory, streams, and the fault that has poisoned it, if any."""

    _ids = itertools.count(1)

    def __init__(self, device: Device, flags: int = 0, green=None):
        super().__init__()
        from grader.vgpu.driver import queue

        self.id = next(self._ids)
        self.device = device
        self.flags = flags
        self.green = green  # the green context that this is the context of
        self.fault = 0  # sticky CUresult
        self.peers: set[int] = set()  # ordinals whose memory this context's kernels may touch
        self.limits = {0: 1024, 1: 1 << 20, 2: 8 << 20, 3: 2, 4: 2048, 5: 64, 6: 0, 7: 0}
        self.cache_config = 0
        self.memory = green.parent.memory if green else new_memory()
        self.streams: set[queue.Stream] = set()
        self.retired: list[queue.Op] = []  # last operations of destroyed streams that the host has not waited for
        self.legacy = queue.Stream(self, kind="legacy", number=0)
        self._per_thread = threading.local()
        self.modules: set = set()
        driver.contexts.append(self)
        if not green:
            driver.share_host_memory_with(self)

    @property
    def sms(self) -> int:
        """SMs that its kernels can use."""
        return self.green.sms if self.green else self.device.card.sms

    def per_thread_stream(self):
        """The calling thread's own default stream, made at its first use."""
        from grader.vgpu.driver import queue

        if not hasattr(self._per_thread, "stream"):
            self._per_thread.stream = queue.Stream(self, kind="per_thread")
        return self._per_thread.stream

    def check(self) -> None:
        """Raise CudaError if it is destroyed or has faulted."""
        if not self.alive:
            raise CudaError(errors.CONTEXT_IS_DESTROYED)
        if self.fault:
            raise CudaError(self.fault)

    def destroy(self) -> None:
        """Drop all that it holds, its green contexts too; work that is still queued is not executed."""
        for green in [c.green for c in driver.contexts if c.green and c.green.parent is self]:
            green.destroy()
        for stream in list(self.streams):
            stream.drop()
        for allocation in [a for a in driver.allocations.values() if a.context is self]:
            allocation.forget()
        for allocation in list(driver.allocations.values()):
            allocation.hide_from(self)
        for module in list(self.modules):
            module.forget()
        driver.contexts.remove(self)
        self.release()


def new_memory():
    """A machine's memory. Imported late: numba-free processes that only describe devices need no machine."""
    from grader.vgpu.machine import Memory

    return Memory()


class _InCallback(threading.local):
    """Whether the thread is within a host function, from which CUDA may not be called."""

    of_thread = False


class Driver:
    """The state of one process."""

    def __init__(self):
        self.initialised = False
        self.devices: list[Device] = []
        self.contexts: list[Context] = []
        self.handles: dict[int, Object] = {}
        self.allocations = Ranges()  # of memory.Allocation, whatever the context
        self._handles = itertools.count(0x1000_0010, 16)
        self._numbers: dict[str, itertools.count] = {}
        self.local = threading.local()
        self.findings: list = []
        self.options = SimpleNamespace(
            racecheck=True,
            hostcheck=False,
            initcheck=True,
            leakcheck=False,
            profile=False,
            deadline=None,
            announce=True,
        )
        self.observers: list[Callable] = []  # called with (kernel, work, result, span) after each kernel
        self.capture_modes = threading.local()
        self.in_callback = _InCallback()

    def new_handle(self, of: Object) -> int:
        """A number that names the object from now on."""
        handle = next(self._handles)
        self.handles[handle] = of
        return handle

    def number(self, of: str) -> int:
        """The next id of its kind for recordings: 1, 2, ..."""
        return next(self._numbers.setdefault(of, itertools.count(1)))

    @property
    def stack(self) -> list[Context]:
        """The calling thread's context stack, top last."""
        try:
            return self.local.stack
        except AttributeError:
            self.local.stack = []
            return self.local.stack

    def share_host_memory_with(self, context: Context) -> None:
        """Make all pinned and managed memory of other contexts visible to this one (unified addressing)."""
        for allocation in list(self.allocations.values()):
            if allocation.shared and allocation.context is not context:
                allocation.show_to(context)


driver = Driver()


def refuse_in_callback() -> None:
    """Host functions must not call CUDA (cuLaunchHostFunc). Raises CudaError NOT_PERMITTED."""
    if driver.in_callback.of_thread:
        raise CudaError(errors.NOT_PERMITTED)


def current_context() -> Context:
    """The calling thread's current context.

    Raises CudaError if there is none, it is unusable, or a host function asks.
    """
    refuse_in_callback()
    stack = driver.stack
    if not stack or stack[-1] is None:
        raise CudaError(errors.INVALID_CONTEXT)
    context = stack[-1]
    if not context.alive:  # a primary context may have been retained again, under its old handle
        context = stack[-1] = driver.handles.get(context.handle, context)
    if context.fault or not context.alive:
        context.check()
    return context


def _after_fork() -> None:
    """Only the forking thread lives on in the child, so nobody there holds the lock or is in a launch."""
    LOCK._at_fork_reinit()


os.register_at_fork(after_in_child=_after_fork)


def _handle(kind: Callable[[], type], code: int = 0, null: bool = False) -> Param:
    """A parameter that names an object of this class; NULL reaches the function as None if `null`."""
    bad = code or errors.INVALID_HANDLE

    def convert(raw: int, _default_stream: int):
        if not raw and null:
            return None
        found = driver.handles.get(raw)
        if found is None or not isinstance(found, kind()):
            raise CudaError(bad)
        return found

    return Param(u64.ctype, convert=convert)


def _stream(raw: int, default_stream: int):
    """A stream handle, with the three special ones; a stream of another context than the current one is fine."""
    raw = raw or default_stream
    if raw in (LEGACY_DEFAULT_STREAM, PER_THREAD_DEFAULT_STREAM):
        context = current_context()
        return context.legacy if raw == LEGACY_DEFAULT_STREAM else context.per_thread_stream()
    found = driver.handles.get(raw)
    if not isinstance(found, _stream_class()):
        raise CudaError(errors.INVALID_HANDLE)
    return found


def _device(raw: int, _default_stream: int) -> Device:
    if not 0 <= raw < len(driver.devices):
        raise CudaError(errors.INVALID_DEVICE)
    return driver.devices[raw]


def _class(module: str, name: str) -> Callable[[], type]:
    """The class, imported at its first use: the chapters import this module."""

    @functools.cache
    def load() -> type:
        return getattr(importlib.import_module(f"grader.vgpu.driver.{module}"), name)

    return load


_stream_class = _class("queue", "Stream")

DEVICE = Param(i32.ctype, convert=_device)
STREAM = Param(u64.ctype, convert=_stream)
# For entry points that work on the default stream without naming it, such as cuMemcpyHtoD.
DEFAULT_STREAM = Param(None, convert=lambda _raw, default_stream: _stream(0, default_stream), implicit=True)
# The handle that stream 0 means to this client, for streams that are named inside a structure.
DEFAULT_HANDLE = Param(None, convert=lambda _raw, default_stream: default_stream, implicit=True)
CONTEXT = _handle(lambda: Context, errors.INVALID_CONTEXT)
CONTEXT_OR_NULL = _handle(lambda: Context, errors.INVALID_CONTEXT, null=True)
EVENT = _handle(_class("event", "Event"))
LIBRARY = _handle(_class("library", "Library"))
KERNEL = _handle(_class("library", "Kernel"))
FUNCTION = _handle(
    _class("library", "Kernel")
)  # a CUfunction and a CUkernel are interchangeable here, as launches allow
GRAPH = _handle(_class("graph", "Graph"), errors.INVALID_VALUE)
NODE = _handle(_class("graph", "Node"), errors.INVALID_VALUE)
EXEC = _handle(_class("exec", "Exec"), errors.INVALID_VALUE)
POOL = _handle(_class("pool", "Pool"), errors.INVALID_VALUE)
GREEN = _handle(_class("green", "GreenContext"), errors.INVALID_VALUE)
USER_OBJECT = _handle(_class("user_object", "UserObject"), errors.INVALID_VALUE)
