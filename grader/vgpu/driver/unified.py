"""Unified Addressing: pointer attributes; managed memory's advice and prefetching."""

from __future__ import annotations

import ctypes

from grader.vgpu.driver import errors, paging, recorder
from grader.vgpu.driver.abi import Param, entry, i32, ptr, size, u32, u64
from grader.vgpu.driver.clock import CALL_US
from grader.vgpu.driver.errors import CudaError
from grader.vgpu.driver.memory import Allocation, find
from grader.vgpu.driver.queue import submit
from grader.vgpu.driver.state import DEVICE, STREAM, Context
from grader.vgpu.driver.structs import MemLocation
from grader.vgpu.driver.work import Prefetch, Work, location_name

DEVICE_LOCATION, HOST_LOCATION = 1, 2
CPU = -1  # CU_DEVICE_CPU; CU_DEVICE_INVALID is -2

# A CUmemLocation passed by value: eight bytes, which both ABIs put into one integer register.
LOCATION = Param(u64.ctype, convert=lambda raw, _: (_signed(raw & 0xFFFFFFFF), _signed(raw >> 32)))


def _signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word


def _attribute(which: int, address: int, ctx: Context | None) -> tuple[type, int] | None:
    """CUpointer_attribute: C type and value, None where the attribute has none for this address.

    Raises CudaError INVALID_VALUE for an attribute that does not exist.
    """
    allocation = find(address)
    if which not in range(1, 23) or which == 5:
        raise CudaError(errors.INVALID_VALUE)
    word, number = ctypes.c_uint64, ctypes.c_int
    if allocation is None:
        return None
    host = allocation.kind in ("host", "registered")
    values = {
        1: (word, allocation.context.handle),
        2: (ctypes.c_uint, 1 if host else 2),
        3: (word, address),
        4: (word, address) if allocation.shared else None,
        6: (ctypes.c_uint, int(allocation.advice.get("sync_memops", 0))),
        7: (word, allocation.id),
        8: (ctypes.c_uint, int(allocation.kind == "managed")),
        9: (number, allocation.context.device.ordinal),
        10: (number, 0),
        11: (word, allocation.address),
        12: (ctypes.c_size_t, allocation.nbytes),
        13: (number, 1),
        14: (word, 0),
        15: (number, 0),
        16: (ctypes.c_uint, 3),
        17: (word, allocation.pool.handle if allocation.pool else 0),
        18: (ctypes.c_size_t, allocation.nbytes),
        19: (word, allocation.address),
        20: (word, allocation.id),
        21: (number, 0),
        22: (number, 0),
    }
    return values[which]


@entry("cuPointerGetAttribute", ptr, u32, u64)
def pointer_get_attribute(ctx, where, which, address):
    if not where:
        raise CudaError(errors.INVALID_VALUE)
    found = _attribute(which, address, ctx)
    if found is None:
        raise CudaError(errors.INVALID_VALUE)
    kind, value = found
    kind.from_address(where).value = value


@entry("cuPointerGetAttributes", u32, ptr, ptr, u64)
def pointer_get_attributes(ctx, n, which, wheres, address):
    """An address that CUDA does not know gives zeros (and -2 as the device), not an error."""
    if not n or not which or not wheres:
        raise CudaError(errors.INVALID_VALUE)
    kinds = (ctypes.c_uint * n).from_address(which)
    targets = (ctypes.c_uint64 * n).from_address(wheres)
    sizes = {2: 4, 6: 4, 8: 4, 9: 4, 10: 4, 13: 4, 15: 4, 16: 4, 21: 4, 22: 4}
    for kind, target in zip(kinds, targets, strict=True):
        found = _attribute(kind, address, ctx)
        if found is not None:
            found[0].from_address(target).value = found[1]
        elif kind == 9:
            ctypes.c_int.from_address(target).value = -2
        else:
            ctypes.memset(target, 0, sizes.get(kind, 8))


@entry("cuPointerSetAttribute", ptr, u32, u64)
def pointer_set_attribute(ctx, value, which, address):
    allocation = find(address)
    if which != 6 or not value or allocation is None:
        raise CudaError(errors.INVALID_VALUE)
    allocation.advice["sync_memops"] = ctypes.c_uint.from_address(value).value


def _managed(address: int, nbytes: int) -> Allocation:
    """The managed allocation that holds all of this range. Raises CudaError INVALID_VALUE."""
    allocation = find(address)
    if allocation is None or allocation.kind != "managed" or not nbytes or address + nbytes > allocation.end:
        raise CudaError(errors.INVALID_VALUE)
    return allocation


def _checked(location: tuple[int, int]) -> tuple[int, int]:
    """A location, all of the host's spellings made one. Raises CudaError INVALID_DEVICE or INVALID_VALUE."""
    kind, number = location
    if kind == DEVICE_LOCATION:
        return DEVICE_LOCATION, DEVICE.convert(number, 0).ordinal
    if kind in (2, 3, 4):
        return HOST_LOCATION, 0
    raise CudaError(errors.INVALID_VALUE)


def _from_device(number: int) -> tuple[int, int]:
    """The location that the older entry points say with a device number."""
    return (HOST_LOCATION, 0) if number == CPU else (DEVICE_LOCATION, number)


_ADVICE = {1: "read_mostly", 3: "preferred_location", 5: "accessed_by"}


def _advise(ctx: Context, address: int, nbytes: int, advice: int, location: tuple[int, int]) -> None:
    allocation = _managed(address, nbytes)
    unset = advice in (2, 4, 6)
    name = _ADVICE.get(advice - unset)
    if name is None:
        raise CudaError(errors.INVALID_VALUE)
    where = _checked(location) if advice in (3, 5, 6) else (HOST_LOCATION, 0)
    if name == "accessed_by":
        devices = allocation.advice.setdefault(name, set())
        (devices.discard if unset else devices.add)(where)
    elif unset:
        allocation.advice.pop(name, None)
    else:
        allocation.advice[name] = where if name == "preferred_location" else True
    paging.advised()
    if recorder.recording():
        recorder.emit(
            "advise",
            ctx.device.ordinal,
            address=address,
            nbytes=nbytes,
            advice=("unset_" if unset else "") + name,
            location=location_name(where),
        )


@entry("cuMemAdvise", u64, size, u32, i32)
def mem_advise(ctx, address, nbytes, advice, device):
    _advise(ctx, address, nbytes, advice, _from_device(device))


@entry("cuMemAdvise", u64, size, u32, LOCATION, version=12020)
def mem_advise_v2(ctx, address, nbytes, advice, location):
    _advise(ctx, address, nbytes, advice, location)


def _prefetch(stream, address: int, nbytes: int, location: tuple[int, int]) -> None:
    _managed(address, nbytes)
    submit(stream, Prefetch(address, nbytes, _checked(location)), host_us=CALL_US)


@entry("cuMemPrefetchAsync", u64, size, i32, STREAM)
def mem_prefetch_async(ctx, address, nbytes, device, stream):
    _prefetch(stream, address, nbytes, _from_device(device))


@entry("cuMemPrefetchAsync", u64, size, LOCATION, u32, STREAM, version=12020)
def mem_prefetch_async_v2(ctx, address, nbytes, location, flags, stream):
    if flags:
        raise CudaError(errors.INVALID_VALUE)
    _prefetch(stream, address, nbytes, location)


class Discard(Work):
    """Drop the contents of managed memory: what is there afterwards is undefined, so it is poisoned."""

    def __init__(self, address: int, nbytes: int):
        self.address, self.nbytes = address, nbytes

    def title(self) -> str:
        return "the discard"

    def extents(self) -> list[tuple[int, int, int, int, str]]:
        return [(self.address, self.nbytes, 1, 0, "writes")]

    def run(self, op) -> None:
        super().run(op)
        allocation = _managed(self.address, self.nbytes)
        ctypes.memset(self.address, 0xCB, self.nbytes)
        paging.discard(allocation, self.address, self.nbytes)

    def describe(self) -> dict:
        return {"op": "discard", "address": self.address, "nbytes": self.nbytes}


def _arrays(n: int, *addresses: int) -> list:
    if not n or not all(addresses):
        raise CudaError(errors.INVALID_VALUE)
    return [(ctypes.c_uint64 * n).from_address(address) for address in addresses]


def _locations(n: int, wheres: int, indices: int, many: int) -> list[tuple[int, int]]:
    """The location of each range: `wheres[k]` holds from range `indices[k]` on."""
    if not many or not wheres or not indices:
        raise CudaError(errors.INVALID_VALUE)
    starts = list((ctypes.c_size_t * many).from_address(indices))
    places = [(place.type, place.id) for place in (MemLocation * many).from_address(wheres)]
    return [places[max(k for k in range(many) if starts[k] <= position)] for position in range(n)]


@entry("cuMemPrefetchBatchAsync", ptr, ptr, size, ptr, ptr, size, u64, STREAM)
def mem_prefetch_batch_async(ctx, addresses, sizes, n, wheres, indices, many, flags, stream):
    starts, lengths = _arrays(n, addresses, sizes)
    for address, nbytes, location in zip(starts, lengths, _locations(n, wheres, indices, many), strict=True):
        _prefetch(stream, address, nbytes, location)


@entry("cuMemDiscardBatchAsync", ptr, ptr, size, u64, STREAM)
def mem_discard_batch_async(ctx, addresses, sizes, n, flags, stream):
    for address, nbytes in zip(*_arrays(n, addresses, sizes), strict=True):
        _managed(address, nbytes)
        submit(stream, Discard(address, nbytes))


@entry("cuMemDiscardAndPrefetchBatchAsync", ptr, ptr, size, ptr, ptr, size, u64, STREAM)
def mem_discard_and_prefetch_batch_async(ctx, addresses, sizes, n, wheres, indices, many, flags, stream):
    starts, lengths = _arrays(n, addresses, sizes)
    for address, nbytes, location in zip(starts, lengths, _locations(n, wheres, indices, many), strict=True):
        _managed(address, nbytes)
        submit(stream, Discard(address, nbytes))
        _prefetch(stream, address, nbytes, location)


def _range_attribute(which: int, allocation: Allocation, nbytes: int) -> list[int]:
    """CUmem_range_attribute: the ints that are its value."""
    advice = allocation.advice
    preferred, last = advice.get("preferred_location"), allocation.last_prefetch

    def old(location):  # CU_DEVICE_CPU, CU_DEVICE_INVALID or a device number
        return -2 if location is None else CPU if location[0] == HOST_LOCATION else location[1]

    if which == 3:
        devices = [old(location) for location in sorted(advice.get("accessed_by", ()))]
        return (devices + [-2] * (nbytes // 4))[: nbytes // 4]
    values = {
        1: int(advice.get("read_mostly", False)),
        2: old(preferred),
        4: old(last),
        5: preferred[0] if preferred else 0,
        6: preferred[1] if preferred else 0,
        7: last[0] if last else 0,
        8: last[1] if last else 0,
    }
    if which not in values:
        raise CudaError(errors.INVALID_VALUE)
    return [values[which]]


@entry("cuMemRangeGetAttribute", ptr, size, u32, u64, size)
def mem_range_get_attribute(ctx, where, nbytes, which, address, length):
    allocation = _managed(address, length)
    if not where or not nbytes or nbytes % 4:
        raise CudaError(errors.INVALID_VALUE)
    values = _range_attribute(which, allocation, nbytes)
    (ctypes.c_int * len(values)).from_address(where)[:] = values


@entry("cuMemRangeGetAttributes", ptr, ptr, ptr, size, u64, size)
def mem_range_get_attributes(ctx, wheres, sizes, kinds, n, address, length):
    allocation = _managed(address, length)
    targets, lengths = _arrays(n, wheres, sizes)
    for where, nbytes, which in zip(targets, lengths, (ctypes.c_uint * n).from_address(kinds), strict=True):
        values = _range_attribute(which, allocation, nbytes)
        (ctypes.c_int * len(values)).from_address(where)[:] = values
