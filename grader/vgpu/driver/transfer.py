"""Memory Management: copies and memsets, and when the host waits for them.

Driver API manual, "API synchronization behavior":

| call | pageable host memory | otherwise |
|---|---|---|
| copy, host to device | the host waits (*) | the host waits |
| copy, device to host | the host waits | the host waits |
| copy within the device | | queued, the host does not wait |
| ...Async, host to device | the source is read before the call returns | truly asynchronous |
| ...Async, device to host | the host waits | truly asynchronous |
| memset | | queued; the host waits if the memory is pinned host or managed memory |

(*) The manual lets the last of the write be pending when the call returns. Programs that launch into a non-blocking
stream after it, without an event, are everywhere and work, so here it is complete.
"""

from __future__ import annotations

import ctypes

from grader.vgpu.driver import errors, recorder
from grader.vgpu.driver.abi import entry, ptr, size, u8, u16, u32, u64
from grader.vgpu.driver.clock import CALL_US, CLOCK, copy_us
from grader.vgpu.driver.errors import CudaError
from grader.vgpu.driver.memory import within
from grader.vgpu.driver.queue import Stream, complete, newest, submit, wait
from grader.vgpu.driver.state import CONTEXT, DEFAULT_STREAM, STREAM
from grader.vgpu.driver.structs import Memcpy2D, Memcpy3D, Memcpy3DPeer
from grader.vgpu.driver.watch import WATCH
from grader.vgpu.driver.work import Copy, Set

HOST, DEVICE, ARRAY, UNIFIED = 1, 2, 3, 4  # CUmemorytype


def _end(address: int, nbytes: int, host: bool | None) -> int | None:
    """Which device holds these bytes: None pageable host memory, -1 pinned. `host`: what the call says, None unsaid."""
    allocation = within(address, nbytes)
    if allocation is None:
        if host is False:
            raise CudaError(errors.INVALID_VALUE)
        return None
    if allocation.kind in ("host", "registered"):
        return -1
    if allocation.kind == "managed":
        return allocation.context.device.ordinal
    if host:
        raise CudaError(errors.INVALID_VALUE)
    return allocation.context.device.ordinal


def make_copy(
    dst: int, src: int, nbytes: int, rows: int = 1, dst_pitch: int = 0, src_pitch: int = 0,
    dst_host: bool | None = None, src_host: bool | None = None,
) -> Copy:  # fmt: skip
    """A copy whose ends have been checked. Raises CudaError INVALID_VALUE."""
    if not nbytes or not rows:
        return Copy(dst, src, 0, "d2d", 0)  # of nothing, from and to anywhere
    if rows > 1 and (dst_pitch < nbytes or src_pitch < nbytes):
        raise CudaError(errors.INVALID_VALUE)
    dst_device = _end(dst, dst_pitch * (rows - 1) + nbytes, dst_host)
    src_device = _end(src, src_pitch * (rows - 1) + nbytes, src_host)
    from_host, to_host = src_device in (None, -1), dst_device in (None, -1)
    way = ("h2h" if to_host else "h2d") if from_host else ("d2h" if to_host else "d2d")
    if way == "d2d" and src_device != dst_device:
        way = "p2p"
    return Copy(dst, src, nbytes, way, rows, dst_pitch, src_pitch, dst_device, src_device)


def copy(stream: Stream, work: Copy, asynchronous: bool) -> None:
    """Queue a copy and wait as the table above says."""
    if not work.nbytes or not work.rows:
        CLOCK.spend(CALL_US)
        return
    work.asynchronous = asynchronous
    if not asynchronous:
        from grader.vgpu.driver.capture import refuse_unsafe_call

        refuse_unsafe_call()
    if stream.capture is None and work.src_device is None:
        work.staged = b"".join(
            ctypes.string_at(work.src + row * work.src_pitch, work.nbytes) for row in range(work.rows)
        )
    op = submit(stream, work)
    if op is None:
        return
    if work.dst_device is None or (not asynchronous and work.way not in ("d2d", "p2p")):
        wait(op)
        if work.dst_device is None and recorder.recording():
            extent = work.dst_pitch * (work.rows - 1) + work.nbytes
            recorder.emit("landed", stream.context.device.ordinal, address=work.dst, nbytes=extent)
    elif work.staged is not None:  # the host itself copies the source to a staging buffer
        CLOCK.spend(copy_us(stream.context.device.card, "h2d", work.nbytes * work.rows, pageable=True))


@entry("cuMemcpy", DEFAULT_STREAM, u64, u64, size)
def memcpy(ctx, stream, dst, src, nbytes):
    copy(stream, make_copy(dst, src, nbytes), asynchronous=False)


@entry("cuMemcpyAsync", u64, u64, size, STREAM)
def memcpy_async(ctx, dst, src, nbytes, stream):
    copy(stream, make_copy(dst, src, nbytes), asynchronous=True)


@entry("cuMemcpyHtoD", DEFAULT_STREAM, u64, ptr, size)
def memcpy_htod(ctx, stream, dst, src, nbytes):
    copy(stream, make_copy(dst, src, nbytes, dst_host=False), asynchronous=False)


@entry("cuMemcpyHtoDAsync", u64, ptr, size, STREAM)
def memcpy_htod_async(ctx, dst, src, nbytes, stream):
    copy(stream, make_copy(dst, src, nbytes, dst_host=False), asynchronous=True)


@entry("cuMemcpyDtoH", DEFAULT_STREAM, ptr, u64, size)
def memcpy_dtoh(ctx, stream, dst, src, nbytes):
    copy(stream, make_copy(dst, src, nbytes, src_host=False), asynchronous=False)


@entry("cuMemcpyDtoHAsync", ptr, u64, size, STREAM)
def memcpy_dtoh_async(ctx, dst, src, nbytes, stream):
    copy(stream, make_copy(dst, src, nbytes, src_host=False), asynchronous=True)


@entry("cuMemcpyDtoD", DEFAULT_STREAM, u64, u64, size)
def memcpy_dtod(ctx, stream, dst, src, nbytes):
    copy(stream, make_copy(dst, src, nbytes, dst_host=False, src_host=False), asynchronous=False)


@entry("cuMemcpyDtoDAsync", u64, u64, size, STREAM)
def memcpy_dtod_async(ctx, dst, src, nbytes, stream):
    copy(stream, make_copy(dst, src, nbytes, dst_host=False, src_host=False), asynchronous=True)


@entry("cuMemcpyPeer", DEFAULT_STREAM, u64, CONTEXT, u64, CONTEXT, size)
def memcpy_peer(ctx, stream, dst, dst_context, src, src_context, nbytes):
    """The host does not wait, but all work of the contexts, earlier and later, keeps its order with the copy."""
    work = make_copy(dst, src, nbytes, dst_host=False, src_host=False)
    contexts = {ctx, dst_context, src_context}
    earlier = [op for context in contexts for op in newest(context)]
    complete(*earlier)
    WATCH.waited(*earlier)
    copy(stream, work, asynchronous=False)
    complete(stream.last)
    WATCH.waited(stream.last)


@entry("cuMemcpyPeerAsync", u64, CONTEXT, u64, CONTEXT, size, STREAM)
def memcpy_peer_async(ctx, dst, dst_context, src, src_context, nbytes, stream):
    copy(stream, make_copy(dst, src, nbytes, dst_host=False, src_host=False), asynchronous=True)


@entry("cuMemcpyWithAttributesAsync", u64, u64, size, ptr, STREAM)
def memcpy_with_attributes_async(ctx, dst, src, nbytes, attributes, stream):
    """The attributes say when the source may be read, and hint where the ends are: the strictest reading fits all."""
    copy(stream, make_copy(dst, src, nbytes), asynchronous=True)


@entry("cuMemcpyBatchAsync", ptr, ptr, ptr, size, ptr, ptr, size, STREAM)
def memcpy_batch_async(ctx, targets, sources, sizes, n, attributes, indices, many, stream):
    if not n or not targets or not sources or not sizes:
        raise CudaError(errors.INVALID_VALUE)
    arrays = [(ctypes.c_uint64 * n).from_address(address) for address in (targets, sources, sizes)]
    for work in [make_copy(dst, src, nbytes) for dst, src, nbytes in zip(*arrays, strict=True)]:
        copy(stream, work, asynchronous=True)


@entry("cuStreamWriteValue32", STREAM, u64, u32, u32)
def stream_write_value_32(ctx, stream, address, value, flags):
    if flags & ~1:  # NO_MEMORY_BARRIER
        raise CudaError(errors.INVALID_VALUE)
    _set(stream, True, address, value, 4, 1)


def _side(params, side: str) -> tuple[int, bool | None]:
    """The base address of one side of a CUDA_MEMCPY2D/3D, and whether it is said to be host memory."""
    kind = getattr(params, f"{side}MemoryType")
    if kind == ARRAY:
        raise CudaError(errors.NOT_SUPPORTED, "copies from and to CUDA arrays are not supported by the virtual GPU")
    if kind not in (HOST, DEVICE, UNIFIED):
        raise CudaError(errors.INVALID_VALUE)
    base = getattr(params, f"{side}Host" if kind == HOST else f"{side}Device")
    return base, {HOST: True, DEVICE: False, UNIFIED: None}[kind]


def copies_2d(params: Memcpy2D) -> list[Copy]:
    """A CUDA_MEMCPY2D as a copy (a list, as for 3-D)."""
    if not params.WidthInBytes or not params.Height:
        return []
    (src, src_host), (dst, dst_host) = _side(params, "src"), _side(params, "dst")
    src_pitch, dst_pitch = params.srcPitch or params.WidthInBytes, params.dstPitch or params.WidthInBytes
    src += params.srcY * src_pitch + params.srcXInBytes
    dst += params.dstY * dst_pitch + params.dstXInBytes
    return [make_copy(dst, src, params.WidthInBytes, params.Height, dst_pitch, src_pitch, dst_host, src_host)]


def copies_3d(params: Memcpy3D | Memcpy3DPeer) -> list[Copy]:
    """A CUDA_MEMCPY3D: one 2-D copy where the slices follow each other, else one a slice."""
    if not params.WidthInBytes or not params.Height or not params.Depth:
        return []
    (src, src_host), (dst, dst_host) = _side(params, "src"), _side(params, "dst")
    width, rows, depth = params.WidthInBytes, params.Height, params.Depth
    src_pitch, dst_pitch = params.srcPitch or width, params.dstPitch or width
    src_slice = src_pitch * (params.srcHeight or rows)
    dst_slice = dst_pitch * (params.dstHeight or rows)
    src += params.srcZ * src_slice + params.srcY * src_pitch + params.srcXInBytes
    dst += params.dstZ * dst_slice + params.dstY * dst_pitch + params.dstXInBytes
    if src_slice == src_pitch * rows and dst_slice == dst_pitch * rows:
        rows, depth = rows * depth, 1
    return [
        make_copy(dst + z * dst_slice, src + z * src_slice, width, rows, dst_pitch, src_pitch, dst_host, src_host)
        for z in range(depth)
    ]


@entry("cuMemcpy2D", "cuMemcpy2DUnaligned", DEFAULT_STREAM, ptr)
def memcpy_2d(ctx, stream, params):
    for work in copies_2d(Memcpy2D.at(params)):
        copy(stream, work, asynchronous=False)


@entry("cuMemcpy2DAsync", ptr, STREAM)
def memcpy_2d_async(ctx, params, stream):
    for work in copies_2d(Memcpy2D.at(params)):
        copy(stream, work, asynchronous=True)


@entry("cuMemcpy3D", DEFAULT_STREAM, ptr)
def memcpy_3d(ctx, stream, params):
    for work in copies_3d(Memcpy3D.at(params)):
        copy(stream, work, asynchronous=False)


@entry("cuMemcpy3DAsync", ptr, STREAM)
def memcpy_3d_async(ctx, params, stream):
    for work in copies_3d(Memcpy3D.at(params)):
        copy(stream, work, asynchronous=True)


@entry("cuMemcpy3DPeer", DEFAULT_STREAM, ptr)
def memcpy_3d_peer(ctx, stream, params):
    for work in copies_3d(Memcpy3DPeer.at(params)):
        copy(stream, work, asynchronous=False)


@entry("cuMemcpy3DPeerAsync", ptr, STREAM)
def memcpy_3d_peer_async(ctx, params, stream):
    for work in copies_3d(Memcpy3DPeer.at(params)):
        copy(stream, work, asynchronous=True)


def make_set(dst: int, value: int, element: int, count: int, rows: int = 1, pitch: int = 0) -> tuple[Set, bool]:
    """A memset that has been checked, and whether the host can touch the memory. Raises CudaError INVALID_VALUE."""
    if dst % element or (rows > 1 and (pitch < count * element or pitch % element)):
        raise CudaError(errors.INVALID_VALUE)
    allocation = within(dst, pitch * (rows - 1) + count * element)
    if allocation is None:
        raise CudaError(errors.INVALID_VALUE)
    return Set(dst, value, element, count, rows, pitch), allocation.shared


def _set(stream: Stream, asynchronous: bool, dst: int, value: int, element: int, count: int, rows=1, pitch=0) -> None:
    if not count or not rows:
        return
    work, shared = make_set(dst, value, element, count, rows, pitch)
    work.asynchronous = asynchronous
    if not asynchronous:
        from grader.vgpu.driver.capture import refuse_unsafe_call

        refuse_unsafe_call()
    op = submit(stream, work)
    if shared and not asynchronous:
        wait(op)


def _add_memsets() -> None:
    """The twelve entry points: D8, D16, D32, one or two dimensions, with and without Async."""
    for element, kind in ((1, u8), (2, u16), (4, u32)):
        bits = 8 * element

        def flat(ctx, stream, dst, value, count, element=element):
            _set(stream, False, dst, value, element, count)

        def flat_async(ctx, dst, value, count, stream, element=element):
            _set(stream, True, dst, value, element, count)

        def pitched(ctx, stream, dst, pitch, value, width, height, element=element):
            _set(stream, False, dst, value, element, width, height, pitch)

        def pitched_async(ctx, dst, pitch, value, width, height, stream, element=element):
            _set(stream, True, dst, value, element, width, height, pitch)

        entry(f"cuMemsetD{bits}", DEFAULT_STREAM, u64, kind, size)(flat)
        entry(f"cuMemsetD{bits}Async", u64, kind, size, STREAM)(flat_async)
        entry(f"cuMemsetD2D{bits}", DEFAULT_STREAM, u64, size, kind, size, size)(pitched)
        entry(f"cuMemsetD2D{bits}Async", u64, size, kind, size, size, STREAM)(pitched_async)


_add_memsets()
