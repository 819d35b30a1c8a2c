"""Asynchronous copies from global to shared memory (cp.async), from compute capability 8.0 on.

| here | PTX | CUDA C++ |
|---|---|---|
| `cp_async(dst, i, src, j, nbytes)` | `cp.async.ca.shared.global` (4, 8, 16), `.cg` (16) | `__pipeline_memcpy_async` |
| `cp_async_zfill(dst, i, src, j, nbytes, n)` | the same with a source size | its argument `zfill` |
| `cp_async_commit()` | `cp.async.commit_group` | `__pipeline_commit` |
| `cp_async_wait(n)` | `cp.async.wait_group n` | `__pipeline_wait_prior(n)` |
| `cp_async_wait_all()` | `cp.async.wait_all` | `__pipeline_wait_prior(0)` after a commit |

A copy is issued and goes on by itself, past the registers of the thread. Groups are each thread's own. A wait makes a
thread's *own* copies visible to *itself*; for those of other threads it takes a `cuda.syncthreads()` after the wait.
(PTX ISA, "Data Movement and Conversion Instructions: Asynchronous copy".)
"""

from numba.cuda import types

from grader.kit import _asm
from grader.kit._asm import GLOBAL, SHARED, as_int, emit, intrinsic, intrinsic_of_constants, place

_SIZES = (4, 8, 16)


@intrinsic_of_constants
def cp_async(typing, dst, i, src, j, nbytes):
    """Start copying `nbytes` (4, 8 or 16, a constant) from src[j] in global memory to dst[i] in shared memory.

    i and j are numbers or tuples. Both addresses must be multiples of `nbytes`: give the shared array an `alignment`.
    """
    size = _checked("cp_async", dst, src, nbytes)

    def codegen(context, builder, sig, args):
        to = place(context, builder, sig, args, 0, 1, SHARED)
        source = place(context, builder, sig, args, 2, 3, GLOBAL)
        emit(
            builder,
            f"cp.async.{_cache(size)}.shared.global [$0], [$1], {size};",
            [to, source],
            [types.uint32, types.uint64],
        )
        return context.get_dummy_value()

    return types.void(dst, i, src, j, nbytes), codegen


@intrinsic_of_constants
def cp_async_zfill(typing, dst, i, src, j, nbytes, n):
    """The same, but only the first `n` bytes (0 to `nbytes`) are read, and the rest of dst[i] is filled with zeros.

    With n = 0 nothing is read, but src[j] must still be an address that could be: use an index that is inside.
    """
    size = _checked("cp_async_zfill", dst, src, nbytes)

    def codegen(context, builder, sig, args):
        to = place(context, builder, sig, args, 0, 1, SHARED)
        source = place(context, builder, sig, args, 2, 3, GLOBAL)
        read = as_int(context, builder, args[5], sig.args[5])
        text = f"cp.async.{_cache(size)}.shared.global [$0], [$1], {size}, $2;"
        emit(builder, text, [to, source, read], [types.uint32, types.uint64, types.uint32])
        return context.get_dummy_value()

    return types.void(dst, i, src, j, nbytes, n), codegen


@intrinsic
def cp_async_commit(typing):
    """Close the group: the copies that this thread started since the last commit, perhaps none."""

    def codegen(context, builder, sig, args):
        emit(builder, "cp.async.commit_group;", [], [])
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic_of_constants
def cp_async_wait(typing, n):
    """Wait until at most the `n` youngest groups of this thread (a constant) are still under way."""
    left = _asm.constant("the number of groups in cp_async_wait", n)

    def codegen(context, builder, sig, args):
        emit(builder, f"cp.async.wait_group {left};", [], [])
        return context.get_dummy_value()

    return types.void(n), codegen


@intrinsic
def cp_async_wait_all(typing):
    """Wait for all copies of this thread, committed or not."""

    def codegen(context, builder, sig, args):
        emit(builder, "cp.async.wait_all;", [], [])
        return context.get_dummy_value()

    return types.void(), codegen


def _checked(what: str, dst, src, nbytes) -> int:
    size = _asm.constant(f"the size in {what}", nbytes, _SIZES)
    for kind in (dst, src):
        _asm.need_array(what, kind, size)
    return size


def _cache(size: int) -> str:
    """16 bytes can go past the L1 cache, smaller copies cannot."""
    return "cg" if size == 16 else "ca"
