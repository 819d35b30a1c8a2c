"""Stream Ordered Memory Allocator: pools, and allocations that exist from one point of a stream to another.

An address is given out at the call. A pool keeps memory that was freed up to its release threshold; here "reserved" is
only a number, since the memory itself goes back to the machine.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import ClassVar

from grader.vgpu.driver import errors, recorder
from grader.vgpu.driver.abi import entry, out, ptr, size, u32, u64
from grader.vgpu.driver.clock import ALLOC_ASYNC_US, CLOCK
from grader.vgpu.driver.errors import CudaError
from grader.vgpu.driver.memory import allocate, find, owned, require, to_free
from grader.vgpu.driver.queue import Stream, submit
from grader.vgpu.driver.state import DEVICE, POOL, STREAM, Context, Device, Object, driver
from grader.vgpu.driver.structs import MemAccessDesc, MemLocation, MemPoolProps
from grader.vgpu.driver.work import Work, location_name

DEVICE_LOCATION, HOST_LOCATION, HOST_NUMA, HOST_NUMA_CURRENT = 1, 2, 3, 4
PINNED, MANAGED = 1, 2  # CUmemAllocationType
CHUNK = 32 << 20  # bytes by which a pool reserves
# CUmemPool_attribute
FOLLOW_EVENTS, OPPORTUNISTIC, INTERNAL_DEPENDENCIES, THRESHOLD = 1, 2, 3, 4
RESERVED_CURRENT, RESERVED_HIGH, USED_CURRENT, USED_HIGH = 5, 6, 7, 8
_WORDS = {THRESHOLD, RESERVED_CURRENT, RESERVED_HIGH, USED_CURRENT, USED_HIGH, 13}  # cuuint64_t; the others are int
_NAMES = {1: "follow_events", 2: "opportunistic", 3: "internal_dependencies", 4: "release_threshold"}


class Pool(Object):
    """A memory pool."""

    def __init__(self, location: tuple[int, int], kind: int, max_size: int = 0, default: bool = False):
        super().__init__()
        self.number = driver.number("pool")
        self.location = location
        self.kind = kind
        self.max_size = max_size
        self.default = default
        self.values = {FOLLOW_EVENTS: 1, OPPORTUNISTIC: 1, INTERNAL_DEPENDENCIES: 1, THRESHOLD: 0}
        self.values |= dict.fromkeys((RESERVED_CURRENT, RESERVED_HIGH, USED_CURRENT, USED_HIGH), 0)
        self.values |= {9: kind, 10: 0, 11: location[1], 12: location[0], 13: max_size}
        self.access: dict[int, int] = {}  # peer ordinal -> CUmemAccess_flags

    @property
    def memory_kind(self) -> str:
        """What the machine calls its memory."""
        if self.kind == MANAGED:
            return "managed"
        return "device" if self.location[0] == DEVICE_LOCATION else "host"

    def taken(self, nbytes: int) -> None:
        """Count an allocation. Raises CudaError OUT_OF_MEMORY beyond the pool's size."""
        values = self.values
        if self.max_size and values[USED_CURRENT] + nbytes > self.max_size:
            raise CudaError(errors.OUT_OF_MEMORY)
        values[USED_CURRENT] += nbytes
        values[USED_HIGH] = max(values[USED_HIGH], values[USED_CURRENT])
        values[RESERVED_CURRENT] = max(values[RESERVED_CURRENT], self._chunks())
        values[RESERVED_HIGH] = max(values[RESERVED_HIGH], values[RESERVED_CURRENT])

    def returned(self, nbytes: int) -> None:
        """Count a free; beyond the threshold, reserved memory goes back."""
        self.values[USED_CURRENT] -= nbytes
        self.trim(self.values[THRESHOLD])

    def trim(self, keep: int) -> None:
        """Give back what is reserved beyond `keep` bytes and not used."""
        values = self.values
        values[RESERVED_CURRENT] = max(self._chunks(), min(values[RESERVED_CURRENT], keep))

    def _chunks(self) -> int:
        return -(-self.values[USED_CURRENT] // CHUNK) * CHUNK


def default_pool(device: Device) -> Pool:
    """The device's default pool."""
    if device.default_pool is None:
        device.default_pool = Pool((DEVICE_LOCATION, device.ordinal), PINNED, default=True)
    return device.default_pool


def _shared_pool(key: str, location: tuple[int, int], kind: int) -> Pool:
    """The default pool of host or managed memory."""
    pools = driver.__dict__.setdefault("default_pools", {})
    if (key, location) not in pools:
        pools[key, location] = Pool(location, kind, default=True)
    return pools[key, location]


@dataclass
class Free(Work):
    """A stream-ordered free."""

    address: int
    kind: ClassVar[str] = "free"
    node_type: ClassVar[int] = 11

    def title(self) -> str:
        return "cuMemFreeAsync"

    def extents(self) -> list[tuple[int, int, int, int, str]]:
        allocation = find(self.address)
        return [(self.address, allocation.nbytes, 1, 0, "frees")] if allocation else []

    def shares(self) -> list:
        return []

    def run(self, op) -> None:
        super().run(op)
        require(self.address, 1, op.stream.context)
        find(self.address).release()

    def describe(self) -> dict:
        return {"op": "free", "address": self.address}


@dataclass
class Allocated(Work):
    """From here on in the stream, memory that was given out at the call may be used."""

    address: int
    nbytes: int
    kind: ClassVar[str] = "alloc"

    def title(self) -> str:
        return "cuMemAllocAsync"

    def extents(self) -> list[tuple[int, int, int, int, str]]:
        return [(self.address, self.nbytes, 1, 0, "allocates")]

    def shares(self) -> list:
        return []


@dataclass
class AllocNode(Work):
    """An allocation in a graph. Its address is fixed; each launch finds it with no contents that it could rely on."""

    address: int
    nbytes: int
    kind: ClassVar[str] = "alloc"
    node_type: ClassVar[int] = 10

    def title(self) -> str:
        return "the allocation"

    def extents(self) -> list[tuple[int, int, int, int, str]]:
        return [(self.address, self.nbytes, 1, 0, "allocates")]

    def run(self, op) -> None:
        super().run(op)
        require(self.address, self.nbytes, op.stream.context)
        ctypes.memset(self.address, 0xCB, self.nbytes)

    def describe(self) -> dict:
        return {"op": "alloc", "address": self.address, "nbytes": self.nbytes, "kind": "device", "pool": None}


@dataclass
class FreeNode(Work):
    """A free in a graph: the bytes are lost, the address stays the graph's for its next launch."""

    address: int
    nbytes: int
    kind: ClassVar[str] = "free"
    node_type: ClassVar[int] = 11

    def title(self) -> str:
        return "the free"

    def extents(self) -> list[tuple[int, int, int, int, str]]:
        return [(self.address, self.nbytes, 1, 0, "frees")]

    @classmethod
    def of(cls, address: int) -> FreeNode:
        """Raises CudaError INVALID_VALUE if no allocation starts here."""
        return cls(address, owned(address, "device", "host", "managed").nbytes)

    def run(self, op) -> None:
        super().run(op)
        require(self.address, self.nbytes, op.stream.context)
        ctypes.memset(self.address, 0xCB, self.nbytes)

    def describe(self) -> dict:
        return {"op": "free", "address": self.address}


def _allocate(ctx: Context, nbytes: int, pool: Pool, stream: Stream) -> int:
    if stream.capture is not None:
        allocation = allocate(ctx, nbytes, pool.memory_kind)
        stream.capture.add(stream, AllocNode(allocation.address, nbytes))
        return allocation.address
    if pool.location[0] == DEVICE_LOCATION and pool.kind == PINNED:
        ctx = _context_of(pool, ctx)
    CLOCK.spend(ALLOC_ASYNC_US)
    if nbytes == 0:
        raise CudaError(errors.INVALID_VALUE)
    pool.taken(nbytes)
    try:
        allocation = allocate(ctx, nbytes, pool.memory_kind, stream=stream, pool=pool)
    except CudaError:
        pool.returned(nbytes)
        raise
    for ordinal, flags in pool.access.items():
        _show(allocation, ordinal, flags)
    if stream.kind != "legacy" or not any(s.capture for s in stream.context.streams):
        stream.push(Allocated(allocation.address, nbytes), host_us=0.0)
    return allocation.address


def _context_of(pool: Pool, ctx: Context) -> Context:
    """The context whose memory a device pool takes from: its device's."""
    device = driver.devices[pool.location[1]]
    if ctx.device is device:
        return ctx
    return device.activate_primary()


def _show(allocation, ordinal: int, flags: int) -> None:
    for context in driver.contexts:
        if context.device.ordinal == ordinal:
            if flags:
                allocation.show_to(context)
            else:
                allocation.hide_from(context)


@entry("cuMemAllocAsync", out(u64), size, STREAM)
def mem_alloc_async(ctx, nbytes, stream):
    device = stream.context.device
    return _allocate(ctx, nbytes, device.pool or default_pool(device), stream)


@entry("cuMemAllocFromPoolAsync", out(u64), size, POOL, STREAM)
def mem_alloc_from_pool_async(ctx, nbytes, pool, stream):
    return _allocate(ctx, nbytes, pool, stream)


@entry("cuMemFreeAsync", u64, STREAM)
def mem_free_async(ctx, address, stream):
    if not address:
        return
    allocation = to_free(address, "device", "host", "managed")
    if stream.capture is not None:
        stream.capture.add(stream, FreeNode(address, allocation.nbytes))
        return
    allocation.freeing = True
    submit(stream, Free(address), host_us=ALLOC_ASYNC_US)


@entry("cuDeviceGetDefaultMemPool", out(u64), DEVICE, context=False)
def device_get_default_mem_pool(device):
    return default_pool(device).handle


@entry("cuDeviceGetMemPool", out(u64), DEVICE, context=False)
def device_get_mem_pool(device):
    return (device.pool or default_pool(device)).handle


@entry("cuDeviceSetMemPool", DEVICE, POOL, context=False)
def device_set_mem_pool(device, pool):
    if pool.location != (DEVICE_LOCATION, device.ordinal):
        raise CudaError(errors.INVALID_VALUE)
    device.pool = pool


def _location_pool(location: MemLocation, kind: int) -> Pool:
    where = (location.type, location.id if location.type in (DEVICE_LOCATION, HOST_NUMA) else 0)
    if kind == PINNED and where[0] == DEVICE_LOCATION:
        return default_pool(DEVICE.convert(where[1], 0))
    if kind not in (PINNED, MANAGED):
        raise CudaError(errors.INVALID_VALUE)
    return _shared_pool("managed" if kind == MANAGED else "host", where, kind)


@entry("cuMemGetDefaultMemPool", out(u64), ptr, u32, context=False)
def mem_get_default_mem_pool(location, kind):
    return _location_pool(MemLocation.at(location), kind).handle


@entry("cuMemGetMemPool", out(u64), ptr, u32, context=False)
def mem_get_mem_pool(location, kind):
    return _location_pool(MemLocation.at(location), kind).handle


@entry("cuMemPoolCreate", out(u64), ptr, context=False)
def mem_pool_create(props):
    given = MemPoolProps.at(props)
    if given.handleTypes:
        raise CudaError(
            errors.NOT_SUPPORTED, "the virtual GPU's memory belongs to one process: pools cannot be exported"
        )
    if given.allocType not in (PINNED, MANAGED):
        raise CudaError(errors.INVALID_VALUE)
    location = (given.location.type, given.location.id)
    if location[0] == DEVICE_LOCATION:
        DEVICE.convert(location[1], 0)
    elif location[0] not in (HOST_LOCATION, HOST_NUMA, HOST_NUMA_CURRENT) and given.allocType != MANAGED:
        raise CudaError(errors.INVALID_VALUE)
    pool = Pool(location, given.allocType, given.maxSize)
    if recorder.recording():
        recorder.emit(
            "pool", max(0, location[1]) if location[0] == 1 else 0, pool=pool.number, max_size=pool.max_size,
            location=location_name(location),
        )  # fmt: skip
    return pool.handle


@entry("cuMemPoolDestroy", POOL, context=False)
def mem_pool_destroy(pool):
    """Its allocations live on until they are freed."""
    if pool.default:
        raise CudaError(errors.INVALID_VALUE)
    for device in driver.devices:
        if device.pool is pool:
            device.pool = None
    pool.release()
    if recorder.recording():
        recorder.emit("pool_destroy", 0, pool=pool.number)


@entry("cuMemPoolTrimTo", POOL, size, context=False)
def mem_pool_trim_to(pool, keep):
    pool.trim(keep)


def _kind(which: int) -> type:
    return ctypes.c_uint64 if which in _WORDS else ctypes.c_int


@entry("cuMemPoolGetAttribute", POOL, u32, ptr, context=False)
def mem_pool_get_attribute(pool, which, value):
    if not value or which not in pool.values:
        raise CudaError(errors.INVALID_VALUE)
    _kind(which).from_address(value).value = pool.values[which]


@entry("cuMemPoolSetAttribute", POOL, u32, ptr, context=False)
def mem_pool_set_attribute(pool, which, value):
    """The high-water marks can only be set to 0, which starts them anew."""
    if not value:
        raise CudaError(errors.INVALID_VALUE)
    given = _kind(which).from_address(value).value
    if which in (RESERVED_HIGH, USED_HIGH) and given == 0:
        pool.values[which] = pool.values[which - 1]
        return
    if which not in _NAMES:
        raise CudaError(errors.INVALID_VALUE)
    pool.values[which] = given
    if recorder.recording():
        recorder.emit("pool_set", 0, pool=pool.number, name=_NAMES[which], value=given)


@entry("cuMemPoolSetAccess", POOL, ptr, size, context=False)
def mem_pool_set_access(pool, descriptions, n):
    from grader.vgpu.driver.peer import can_access

    for k in range(n):
        given = MemAccessDesc.at(descriptions + k * ctypes.sizeof(MemAccessDesc))
        if given.location.type != DEVICE_LOCATION or given.flags not in (0, 1, 3):
            raise CudaError(errors.INVALID_VALUE)
        peer = DEVICE.convert(given.location.id, 0)
        if pool.location[0] == DEVICE_LOCATION:
            owner = driver.devices[pool.location[1]]
            if peer is owner:
                if given.flags != 3:
                    raise CudaError(errors.INVALID_VALUE)
                continue
            if not can_access(peer, owner):
                raise CudaError(errors.INVALID_DEVICE)
        pool.access[peer.ordinal] = given.flags
        for allocation in list(driver.allocations.values()):
            if allocation.pool is pool:
                _show(allocation, peer.ordinal, given.flags)
        if recorder.recording():
            ordinal = pool.location[1] if pool.location[0] == 1 else 0
            recorder.emit("pool_access", ordinal, pool=pool.number, peer=peer.ordinal, access=given.flags)


@entry("cuMemPoolGetAccess", out(u32), POOL, ptr, context=False)
def mem_pool_get_access(pool, location):
    given = MemLocation.at(location)
    if pool.location[0] == DEVICE_LOCATION and (given.type, given.id) == pool.location:
        return 3
    return pool.access.get(given.id, 0) if given.type == DEVICE_LOCATION else 3 * (pool.memory_kind != "device")


@entry("cuDeviceGraphMemTrim", DEVICE, context=False)
def device_graph_mem_trim(device):
    """Nothing is kept for graphs beyond what they use."""


@entry("cuMemPoolExportToShareableHandle", ptr, POOL, u32, u64, context=False)
def mem_pool_export(handle, pool, kind, flags):
    raise CudaError(errors.NOT_SUPPORTED, "the virtual GPU's memory belongs to one process: pools cannot be exported")
