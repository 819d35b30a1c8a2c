"""Memory Management: device, pinned, registered and managed memory, and who may touch which address.

Every allocation of the process is in one table, whatever the context, as unified addressing has it. Pinned and managed
memory is shown to the memories of all contexts. Addresses are the process's own, so a host pointer is a device pointer.
"""

from __future__ import annotations

import numpy as np

from grader.vgpu.driver import errors, faulting, paging, recorder
from grader.vgpu.driver.abi import entry, opt, out, ptr, say, size, u32, u64
from grader.vgpu.driver.clock import ALLOC_US, CLOCK
from grader.vgpu.driver.errors import CudaError
from grader.vgpu.driver.guard import GUARD
from grader.vgpu.driver.state import Context, driver
from grader.vgpu.driver.watch import WATCH
from grader.vgpu.sanitize import host

HOST_PORTABLE, HOST_DEVICEMAP, HOST_WRITECOMBINED = 1, 2, 4
WORD = 4  # bytes: what the host writes is told apart to this grain, as in grader/hostbytes.py
REGISTER_FLAGS = 0x1 | 0x2 | 0x4 | 0x8  # portable, device map, io memory, read-only
ATTACH_GLOBAL, ATTACH_HOST, ATTACH_SINGLE = 1, 2, 4


class Allocation:
    """One live allocation. `kind`: "device", "managed", "host", "registered", or "symbol" for a module's variable."""

    def __init__(self, context: Context, address: int, nbytes: int, kind: str, pool=None, flags: int = 0):
        self.context = context
        self.address = address
        self.nbytes = nbytes
        self.kind = kind
        self.pool = pool
        self.flags = flags
        self.id = driver.number("allocation")
        self.pages = None  # paging.Pages of managed memory
        self.last_prefetch: tuple[int, int] | None = None
        self.advice: dict[str, object] = {}
        self.known: np.ndarray | None = None  # the bytes as a recording has them
        self.freeing = False  # a stream-ordered free is queued
        self.place = host.place() if driver.options.leakcheck else ("", 0)  # where the program asked for it
        self._shown_to: list[Context] = []
        driver.allocations[address] = self
        if kind == "device":
            context.device.used_bytes += nbytes
        if self.shared:
            for other in driver.contexts:
                if other.memory is not context.memory:
                    self.show_to(other)
        else:
            for other in driver.contexts:
                if context.device.ordinal in other.peers and other.memory is not context.memory:
                    self.show_to(other)

    @property
    def shared(self) -> bool:
        """The host and every device can touch it."""
        return self.kind not in ("device", "symbol")

    @property
    def end(self) -> int:
        """The address after its last byte."""
        return self.address + self.nbytes

    def show_to(self, context: Context) -> None:
        """Let another context's kernels touch it."""
        if context not in self._shown_to and context.memory is not self.context.memory:
            if not self._shown_in(context.memory):
                context.memory.register(self.address, self.nbytes)
            self._shown_to.append(context)

    def hide_from(self, context: Context) -> None:
        """The reverse of `show_to`."""
        if context in self._shown_to:
            self._shown_to.remove(context)
            if not self._shown_in(context.memory):
                context.memory.free(self.address)

    def _shown_in(self, memory) -> bool:
        """Some context of this memory has it: a green context has the memory of its device's primary one."""
        return any(context.memory is memory for context in self._shown_to)

    def view(self) -> np.ndarray:
        """Its bytes."""
        return self.context.memory.view(self.address, self.nbytes)

    def release(self) -> None:
        """Free it."""
        paging.drop(self)
        GUARD.drop(self)
        for context in list(self._shown_to):
            self.hide_from(context)
        self.context.memory.free(self.address)
        self.forget()

    def forget(self) -> None:
        """Take it out of the table without touching its context's memory, which is gone or has freed it."""
        for context in list(self._shown_to):
            self.hide_from(context)
        paging.drop(self)
        GUARD.drop(self)
        driver.allocations.pop(self.address, None)
        _registered.pop(self, None)
        WATCH.gone(self)
        if self.kind == "device":
            self.context.device.used_bytes -= self.nbytes
        if self.pool is not None:
            self.pool.returned(self.nbytes)


_registered: dict[Allocation, None] = {}
_unmapped: dict[
    int, None
] = {}  # addresses of what was registered when the program gave it back, and nobody was told yet


def drop_unmapped() -> None:
    """Forget registered memory that the program has given back to the system, before anything reads it. Whoever was
    going to use it finds it freed.
    """
    for allocation in list(_registered):
        if not faulting.is_mapped(allocation.address, allocation.nbytes):
            _unmapped[allocation.address] = None
            _tell_free(allocation)
            allocation.release()


def leaks() -> list:
    """A finding for each place of the program that has allocated memory which is live: for when it is at its end."""
    from grader.vgpu.sanitize.findings import Finding

    found: dict = {}
    for allocation in driver.allocations.values():
        if allocation.kind in ("device", "managed", "host"):
            found.setdefault((allocation.place, allocation.kind), []).append(allocation.nbytes)
    return [
        Finding(
            "memcheck", "leak", f"{sum(sizes)} bytes of {kind} memory were never freed", line, file, count=len(sizes)
        )
        for ((file, line), kind), sizes in found.items()
    ]


def find(address: int) -> Allocation | None:
    """The live allocation that holds this address."""
    return driver.allocations.find(address)


def within(address: int, nbytes: int) -> Allocation | None:
    """The live allocation that holds all of these bytes; CudaError INVALID_VALUE if it holds only some."""
    allocation = find(address)
    if allocation is not None and address + nbytes > allocation.end:
        why = (
            f"a copy or memset of {nbytes} bytes at {address:#x} runs {address + nbytes - allocation.end} bytes past "
            f"the end of an allocation of {allocation.nbytes} bytes"
        )
        _report("invalid copy", why)
        raise CudaError(errors.INVALID_VALUE, why)
    return allocation


def require(address: int, nbytes: int, context: Context) -> None:
    """At execution: the bytes must still be allocated, else it is an illegal address, which is sticky."""
    allocation = find(address)
    if allocation is None or address + nbytes > allocation.end:
        why = f"a queued copy or memset of {nbytes} bytes at {address:#x} found that memory freed when it was executed"
        if context.memory.find_freed(address) is not None and _unmapped:
            _unmapped.clear()
            why += ", and it was still page-locked: unregister it first (cuMemHostUnregister), which waits"
        say(why)
        _report("use after free", why)
        raise CudaError(errors.ILLEGAL_ADDRESS)


def written(address: int, nbytes: int) -> None:
    """Tell initcheck that a copy or memset has written these bytes."""
    allocation = find(address)
    if allocation is not None:
        allocation.context.memory.written(address, nbytes)


def copied(target: int, source: int, nbytes: int) -> None:
    """Tell initcheck that these bytes were copied: they are as written as the source's were."""
    to, of = find(target), find(source)
    if to is None:
        return
    if of is None or of.shared or to.context.memory is not of.context.memory:
        to.context.memory.written(target, nbytes)
    else:
        to.context.memory.copy_written(target, source, nbytes)


def _fits_this_computer(nbytes: int) -> bool:
    """Whether this computer has room for the bytes and what the sanitizers note of them, about as much again."""
    if nbytes < 64 << 20:
        return True
    with open("/proc/meminfo") as file:
        available = next(int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable"))
    return 2 * nbytes < available


def allocate(context: Context, nbytes: int, kind: str, stream=None, pool=None, flags: int = 0) -> Allocation:
    """Allocate, or raise CudaError: INVALID_VALUE for 0 bytes, OUT_OF_MEMORY beyond what the card or this host has."""
    if nbytes == 0:
        raise CudaError(errors.INVALID_VALUE)
    device = context.device
    if kind == "device" and device.used_bytes + nbytes > device.card.memory_bytes:
        raise CudaError(errors.OUT_OF_MEMORY)
    if kind == "managed" and paging.is_full():
        raise CudaError(
            errors.OUT_OF_MEMORY,
            f"the virtual GPU watches the pages of up to {faulting.RANGES} managed arrays: make one array of several",
        )
    try:
        if not _fits_this_computer(nbytes):
            raise MemoryError
        address = context.memory.allocate(nbytes, kind=kind).address
    except MemoryError:
        raise CudaError(
            errors.OUT_OF_MEMORY,
            f"{nbytes} bytes do not fit into this computer's memory, in which the virtual GPU keeps its own",
        ) from None
    allocation = Allocation(context, address, nbytes, kind, pool, flags)
    if recorder.recording():
        _tell_allocation(allocation, stream)
    if kind == "managed":
        paging.adopt(allocation)
    return allocation


def _tell_allocation(allocation: Allocation, stream=None) -> None:
    recorder.emit(
        "alloc",
        allocation.context.device.ordinal,
        address=allocation.address,
        nbytes=allocation.nbytes,
        kind=allocation.kind,
        stream=stream.number if stream else None,
        pool=allocation.pool.number if allocation.pool else None,
    )
    if allocation.kind in ("host", "managed"):
        allocation.known = allocation.view().copy()


def _tell_free(allocation: Allocation) -> None:
    if recorder.recording():
        recorder.emit("free", allocation.context.device.ordinal, address=allocation.address, stream=None)


def tell_host_writes() -> None:
    """Before an op that could see them: what the host has written to memory that it shares with the device."""
    with paging.opened():
        _tell_host_writes()


def _tell_host_writes() -> None:
    for allocation in list(driver.allocations.values()):
        if not allocation.shared:
            continue
        now = allocation.view()
        if allocation.known is None:
            changed = [(0, allocation.nbytes)]
        else:
            changed = _ranges(np.flatnonzero(now != allocation.known), allocation.nbytes)
        for start, end in changed:
            data = now[start:end].tobytes()
            recorder.emit("host", allocation.context.device.ordinal, address=allocation.address + start, data=data)
        if changed:
            allocation.known = now.copy()


def note_device_writes() -> None:
    """After executing work: what shared memory holds now is the device's doing and known to a replay."""
    for allocation in driver.allocations.values():
        if allocation.shared:
            allocation.known = allocation.view().copy()


def _ranges(changed: np.ndarray, nbytes: int, gap: int = 4096) -> list[tuple[int, int]]:
    """The ranges of these offsets, joined where they are less than `gap` apart.

    They are made of whole words: of a number that is written, a byte of two hundred happens to be there already, and
    where a range starts must not depend on that.
    """
    if not changed.size:
        return []
    cuts = np.flatnonzero(np.diff(changed) > gap)
    starts = [changed[0], *changed[cuts + 1]]
    ends = [*changed[cuts], changed[-1]]
    words = [(int(a) // WORD * WORD, (int(b) // WORD + 1) * WORD) for a, b in zip(starts, ends, strict=True)]
    return [(start, min(end, nbytes)) for start, end in words]


def owned(address: int, *kinds: str) -> Allocation:
    """The allocation that starts here, of one of these kinds; CudaError INVALID_VALUE otherwise."""
    allocation = driver.allocations.get(address)
    if allocation is None or allocation.kind not in kinds or allocation.freeing:
        raise CudaError(errors.INVALID_VALUE)
    return allocation


def to_free(address: int, *kinds: str) -> Allocation:
    """`owned`, and memcheck says what is wrong where it raises."""
    try:
        return owned(address, *kinds)
    except CudaError:
        _report_bad_free(address, driver.allocations.get(address))
        raise


def _report(kind: str, message: str) -> None:
    """A finding of memcheck about a call of the host's."""
    from grader.vgpu.driver.work import note
    from grader.vgpu.sanitize import host

    note(host.finding("memcheck", kind, message))


def _report_bad_free(address: int, allocation: Allocation | None) -> None:
    """Say what it is that was to be freed."""
    gone = next((a for c in driver.contexts if (a := c.memory.find_freed(address)) is not None), None)
    around = find(address)
    if (gone is not None and gone.address == address) or (allocation is not None and allocation.freeing):
        _report("double free", f"the memory at {address:#x} has been freed already: free it once")
    elif allocation is not None:
        _report("invalid free", f"{address:#x} is {allocation.kind} memory, which another function frees")
    elif around is not None:
        offset = address - around.address
        _report("invalid free", f"{address:#x} is byte {offset} of an allocation: free the address that it starts at")
    else:
        _report("invalid free", f"{address:#x} is not memory that was allocated")


def _unsafe() -> None:
    """Calls that may synchronise are not allowed while this thread captures (Stream Management, capture modes)."""
    from grader.vgpu.driver.capture import refuse_unsafe_call

    refuse_unsafe_call()
    CLOCK.spend(ALLOC_US)


def _free(allocation: Allocation) -> None:
    """Wait for the device, as cuMemFree does, and free."""
    from grader.vgpu.driver.queue import drain

    allocation.context.check()
    drain(allocation.context)
    _tell_free(allocation)
    allocation.release()


@entry("cuMemGetInfo", out(size), out(size))
def mem_get_info(ctx):
    """Free and total bytes of the current device."""
    card = ctx.device.card
    return card.memory_bytes - ctx.device.used_bytes, card.memory_bytes


@entry("cuMemAlloc", out(u64), size)
def mem_alloc(ctx, nbytes):
    _unsafe()
    return allocate(ctx, nbytes, "device").address


@entry("cuMemAllocPitch", out(u64), out(size), size, size, u32)
def mem_alloc_pitch(ctx, width, height, element):
    """The pitch is a multiple of 512 bytes, as on all cards of the table."""
    _unsafe()
    if element not in (4, 8, 16) or not width or not height:
        raise CudaError(errors.INVALID_VALUE)
    pitch = -(-width // 512) * 512
    return allocate(ctx, pitch * height, "device").address, pitch


# An address says whose memory it is, so what frees it needs no current context: a client that resets a device, as
# numba's cuda.close() does, has popped it (https://github.com/NVIDIA/cuda-python/pull/2750 tests that of cuMemFree,
# https://github.com/openucx/ucx/pull/10643 of cuMemHostUnregister).
@entry("cuMemFree", u64, context=False)
def mem_free(address):
    if address == 0:
        return
    _unsafe()
    _free(to_free(address, "device", "managed"))


@entry("cuMemGetAddressRange", opt(u64), opt(size), u64)
def mem_get_address_range(ctx, address):
    allocation = find(address)
    if allocation is None:
        raise CudaError(errors.NOT_FOUND)
    return allocation.address, allocation.nbytes


@entry("cuMemHostAlloc", out(u64), size, u32)
def mem_host_alloc(ctx, nbytes, flags):
    if flags & ~(HOST_PORTABLE | HOST_DEVICEMAP | HOST_WRITECOMBINED):
        raise CudaError(errors.INVALID_VALUE)
    _unsafe()
    return allocate(ctx, nbytes, "host", flags=flags | HOST_DEVICEMAP).address


@entry("cuMemAllocHost", out(u64), size)
def mem_alloc_host(ctx, nbytes):
    _unsafe()
    return allocate(ctx, nbytes, "host", flags=HOST_DEVICEMAP).address


@entry("cuMemFreeHost", ptr, context=False)
def mem_free_host(address):
    _unsafe()
    _free(to_free(address, "host"))


@entry("cuMemHostGetDevicePointer", out(u64), ptr, u32)
def mem_host_get_device_pointer(ctx, address, flags):
    allocation = find(address)
    if flags or allocation is None or allocation.kind not in ("host", "registered"):
        raise CudaError(errors.INVALID_VALUE)
    return address


@entry("cuMemHostGetFlags", out(u32), ptr)
def mem_host_get_flags(ctx, address):
    allocation = find(address)
    if allocation is None or allocation.kind != "host":
        raise CudaError(errors.INVALID_VALUE)
    return allocation.flags


@entry("cuMemHostRegister", ptr, size, u32)
def mem_host_register(ctx, address, nbytes, flags):
    """Page-lock memory of the program's own."""
    if not address or not nbytes or flags & ~REGISTER_FLAGS:
        raise CudaError(errors.INVALID_VALUE)
    _unsafe()
    if driver.allocations.overlapping(address, nbytes):
        raise CudaError(errors.HOST_MEMORY_ALREADY_REGISTERED)
    ctx.memory.register(address, nbytes)
    allocation = Allocation(ctx, address, nbytes, "registered", flags=flags | HOST_DEVICEMAP)
    _registered[allocation] = None
    _unmapped.pop(address, None)
    if recorder.recording():
        _tell_allocation(allocation)


@entry("cuMemHostUnregister", ptr, context=False)
def mem_host_unregister(address):
    if not address:
        raise CudaError(errors.INVALID_VALUE)
    _unsafe()
    allocation = driver.allocations.get(address)
    if allocation is None or allocation.kind != "registered":
        if address in _unmapped:
            del _unmapped[address]
            why = f"the program has freed the memory at {address:#x}, which is page-locked: unregister it first"
            _report("invalid free", why)
            raise CudaError(errors.HOST_MEMORY_NOT_REGISTERED, why)
        raise CudaError(errors.HOST_MEMORY_NOT_REGISTERED)
    _free(allocation)


@entry("cuMemAllocManaged", out(u64), size, u32)
def mem_alloc_managed(ctx, nbytes, flags):
    if flags not in (ATTACH_GLOBAL, ATTACH_HOST):
        raise CudaError(errors.INVALID_VALUE)
    _unsafe()
    return allocate(ctx, nbytes, "managed", flags=flags).address


@entry("cuIpcGetMemHandle", ptr, u64)
def ipc_get_mem_handle(ctx, handle, address):
    raise CudaError(
        errors.NOT_SUPPORTED, "the virtual GPU's memory belongs to one process: cuIpc* handles are not supported"
    )
