"""Barriers for less than all threads, and barriers that count: named barriers and mbarriers.

| here | PTX | CUDA C++ |
|---|---|---|
| `barrier_sync(id, threads)` | `bar.sync id, threads` | `__barrier_sync_count` |
| `barrier_arrive(id, threads)` | `bar.arrive id, threads` | |
| `mbarrier_init(bars, k, count)` | `mbarrier.init.shared.b64` | `init(&bar, count)` of `cuda::barrier` |
| `mbarrier_arrive(bars, k)` | `mbarrier.arrive.shared.b64` | `bar.arrive()` |
| `mbarrier_arrive_expect_tx(bars, k, nbytes)` | `mbarrier.arrive.expect_tx` | `cuda::device::barrier_arrive_tx` |
| `mbarrier_test(bars, k, parity)` | `mbarrier.test_wait.parity` | `bar.try_wait_parity` |
| `mbarrier_wait(bars, k, parity)` | a loop around it | `bar.wait_parity(parity)` |
| `cp_async_arrive(bars, k)` | `cp.async.mbarrier.arrive.noinc` | CUTLASS: `cpasync_barrier_arrive_noinc` |
| `bulk_copy(dst, i, src, j, nbytes, bars, k)` | `cp.async.bulk` | `cuda::device::memcpy_async_tx` |

An mbarrier is a 64-bit word in shared memory: `bars = cuda.shared.array(stages, uint64)`. It goes through phases, whose
parity is 0, 1, 0, ...; a phase ends when `count` arrivals have come, and all bytes that were announced.
(PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier".)
"""

from numba import cuda
from numba.cuda import types

from grader.kit import _asm
from grader.kit._asm import GLOBAL, SHARED, as_int, emit, intrinsic, place


@intrinsic
def barrier_sync(typing, number, threads):
    """Wait at barrier `number` (1 to 15; 0 is syncthreads) until `threads` threads are there, a multiple of 32."""
    return types.void(number, threads), _two_numbers("bar.sync $0, $1;")


@intrinsic
def barrier_arrive(typing, number, threads):
    """Be counted at barrier `number` without waiting: for the side that only produces."""
    return types.void(number, threads), _two_numbers("bar.arrive $0, $1;")


@intrinsic
def mbarrier_init(typing, bars, k, count):
    """Make bars[k] a barrier for `count` arrivals a phase. One thread does it; a syncthreads before others use it."""
    return types.void(bars, k, count), _on_barrier("mbarrier_init", bars, "mbarrier.init.shared.b64 [$0], $1;", count)


@intrinsic
def mbarrier_arrive(typing, bars, k):
    """One arrival at bars[k]."""
    text = "{ .reg .b64 t; mbarrier.arrive.shared.b64 t, [$0]; }"
    return types.void(bars, k), _on_barrier("mbarrier_arrive", bars, text)


@intrinsic
def mbarrier_arrive_expect_tx(typing, bars, k, nbytes):
    """One arrival, and the announcement of `nbytes` that bulk copies will bring in this phase. cc 9.0."""
    text = "{ .reg .b64 t; mbarrier.arrive.expect_tx.shared::cta.b64 t, [$0], $1; }"
    return types.void(bars, k, nbytes), _on_barrier("mbarrier_arrive_expect_tx", bars, text, nbytes)


@intrinsic
def mbarrier_test(typing, bars, k, parity):
    """Whether the phase of that parity is over at bars[k]; does not wait."""
    _asm.need_array("mbarrier_test", bars)
    text = "{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [$1], $2; selp.u32 $0, 1, 0, p; }"

    def codegen(context, builder, sig, args):
        at = place(context, builder, sig, args, 0, 1, SHARED)
        phase = as_int(context, builder, args[2], sig.args[2])
        done = emit(builder, text, [at, phase], [types.uint32, types.uint32], types.uint32)
        return builder.trunc(done, _asm.LLVM[types.boolean])

    return types.boolean(bars, k, parity), codegen


@cuda.jit(device=True, forceinline=True)
def mbarrier_wait(bars, k, parity):
    """Wait until the phase of that parity is over at bars[k]."""
    while not mbarrier_test(bars, k, parity):
        pass


@intrinsic
def cp_async_arrive(typing, bars, k):
    """Arrive at bars[k] when this thread's copies so far (cp_async) are complete; counts as one of its arrivals."""
    text = "cp.async.mbarrier.arrive.noinc.shared.b64 [$0];"
    return types.void(bars, k), _on_barrier("cp_async_arrive", bars, text)


@intrinsic
def bulk_copy(typing, dst, i, src, j, nbytes, bars, k):
    """Start copying `nbytes` (a multiple of 16) from src[j] to dst[i]; they are counted at bars[k]. cc 9.0.

    One thread starts it, after announcing the bytes with mbarrier_arrive_expect_tx. Addresses are multiples of 16.
    """
    for kind in (dst, src, bars):
        _asm.need_array("bulk_copy", kind)
    text = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1], $2, [$3];"

    def codegen(context, builder, sig, args):
        to = place(context, builder, sig, args, 0, 1, SHARED)
        source = place(context, builder, sig, args, 2, 3, GLOBAL)
        size = as_int(context, builder, args[4], sig.args[4])
        bar = place(context, builder, sig, args, 5, 6, SHARED)
        emit(builder, text, [to, source, size, bar], [types.uint32, types.uint64, types.uint32, types.uint32])
        return context.get_dummy_value()

    return types.void(dst, i, src, j, nbytes, bars, k), codegen


@intrinsic
def fence_async(typing):
    """Order this thread's own accesses to shared memory before bulk copies that follow (fence.proxy.async). cc 9.0."""

    def codegen(context, builder, sig, args):
        emit(builder, "fence.proxy.async.shared::cta;", [], [])
        return context.get_dummy_value()

    return types.void(), codegen


def _two_numbers(text: str):
    def codegen(context, builder, sig, args):
        numbers = [as_int(context, builder, v, t) for v, t in zip(args, sig.args, strict=True)]
        emit(builder, text, numbers, [types.uint32, types.uint32])
        return context.get_dummy_value()

    return codegen


def _on_barrier(what: str, bars, text: str, number=None):
    _asm.need_array(what, bars)

    def codegen(context, builder, sig, args):
        operands, kinds = [place(context, builder, sig, args, 0, 1, SHARED)], [types.uint32]
        if number is not None:
            operands.append(as_int(context, builder, args[2], sig.args[2]))
            kinds.append(types.uint32)
        emit(builder, text, operands, kinds)
        return context.get_dummy_value()

    return codegen
