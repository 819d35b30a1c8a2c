"""Who touches which page of managed memory first: the processor's own page faults, turned into a log.

Pages that a kernel or the host may not touch unnoticed are protected (mprotect). The first access to one of them ends
in SIGSEGV, whose handler notes address and kind of the access, opens the leaf of 64 KB that holds it and returns, so
that the access is made again and succeeds. The handler is a few lines of machine code and needs no Python. Addresses
that are nobody's are handed on to whoever had the signal before.

A system call does not fault: given a protected buffer it returns EFAULT ("Bad address"). Prefetch the array to the host,
or copy it, before it is handed to one.
"""

from __future__ import annotations

import ctypes
import functools
import signal

import llvmlite.binding as llvm
import numpy as np

LEAF = 64 << 10  # bytes that are opened at a time
NONE, READ, WRITE = 0, 1, 3  # PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE
_RANGES, _NOTES = 1024, 1 << 18
# Where Linux for x86-64 puts the faulting address in siginfo_t, and the page-fault error code in ucontext_t: bit 1 of
# it says that the access was a write (arch/x86/include/uapi/asm/sigcontext.h, Intel SDM volume 3, section 4.7).
_SI_ADDR, _REG_ERR = 16, 192
_SA_SIGINFO, _SA_ONSTACK, _SA_NODEFER = 0x4, 0x08000000, 0x40000000

_counts = np.zeros(2, np.int64)  # ranges, notes
_ranges = np.zeros((_RANGES, 3), np.int64)  # first address, end, protection after a read
_notes = np.zeros(_NOTES, np.int64)  # address << 1 | written
_handler_action = ctypes.create_string_buffer(152)  # struct sigaction
_earlier_action = ctypes.create_string_buffer(152)

_HANDLER = """
declare i32 @mprotect(i64, i64, i32)
declare i32 @sigaction(i32, ptr, ptr)

define void @managed_page_fault(i32 %signal, ptr %info, ptr %context) {{
entry:
  %where = getelementptr i8, ptr %info, i64 {si_addr}
  %address = load i64, ptr %where
  %n = load i64, ptr inttoptr (i64 {counts} to ptr)
  br label %search
search:
  %k = phi i64 [ 0, %entry ], [ %next, %other ]
  %more = icmp ult i64 %k, %n
  br i1 %more, label %look, label %foreign
look:
  %words = mul i64 %k, 3
  %row = getelementptr i64, ptr inttoptr (i64 {ranges} to ptr), i64 %words
  %first = load i64, ptr %row
  %endp = getelementptr i64, ptr %row, i64 1
  %end = load i64, ptr %endp
  %above = icmp uge i64 %address, %first
  %below = icmp ult i64 %address, %end
  %inside = and i1 %above, %below
  br i1 %inside, label %ours, label %other
other:
  %next = add i64 %k, 1
  br label %search
ours:
  %errp = getelementptr i8, ptr %context, i64 {reg_err}
  %err = load i64, ptr %errp
  %bit = lshr i64 %err, 1
  %written = and i64 %bit, 1
  %is_write = icmp eq i64 %written, 1
  %readp = getelementptr i64, ptr %row, i64 2
  %read = load i64, ptr %readp
  %wide = select i1 %is_write, i64 3, i64 %read
  %protection = trunc i64 %wide to i32
  %offset = sub i64 %address, %first
  %inside_leaf = and i64 %offset, {leaf_mask}
  %start = sub i64 %address, %inside_leaf
  %full = add i64 %start, {leaf}
  %fits = icmp ule i64 %full, %end
  %stop = select i1 %fits, i64 %full, i64 %end
  %length = sub i64 %stop, %start
  %opened = call i32 @mprotect(i64 %start, i64 %length, i32 %protection)
  %at = load i64, ptr inttoptr (i64 {notes_count} to ptr)
  %room = icmp ult i64 %at, {notes_limit}
  br i1 %room, label %note, label %done
note:
  %shifted = shl i64 %address, 1
  %entry_word = or i64 %shifted, %written
  %slot = getelementptr i64, ptr inttoptr (i64 {notes} to ptr), i64 %at
  store i64 %entry_word, ptr %slot
  %after = add i64 %at, 1
  store i64 %after, ptr inttoptr (i64 {notes_count} to ptr)
  br label %done
foreign:
  %restored = call i32 @sigaction(i32 {sigsegv}, ptr inttoptr (i64 {earlier} to ptr), ptr null)
  br label %done
done:
  ret void
}}
"""


@functools.cache
def _libc():
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
    libc.sigaction.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    return libc


@functools.cache
def _handler() -> int:
    """Address of the compiled handler."""
    from grader.vgpu.jit import compile

    for name in ("mprotect", "sigaction"):
        llvm.add_symbol(name, ctypes.cast(getattr(_libc(), name), ctypes.c_void_p).value)
    text = _HANDLER.format(
        si_addr=_SI_ADDR, reg_err=_REG_ERR, counts=_counts.ctypes.data, notes_count=_counts.ctypes.data + 8,
        ranges=_ranges.ctypes.data, notes=_notes.ctypes.data, notes_limit=_NOTES, leaf=LEAF, leaf_mask=LEAF - 1,
        sigsegv=signal.SIGSEGV.value, earlier=ctypes.addressof(_earlier_action),
    )  # fmt: skip
    return compile.load(compile.compile_object(text), ("managed_page_fault",))["managed_page_fault"]


def _install() -> None:
    """Put the handler in front of whoever has the signal now, unless it is there already."""
    handler = _handler()
    now = ctypes.create_string_buffer(len(_handler_action))
    _libc().sigaction(signal.SIGSEGV, None, now)
    if int.from_bytes(now[:8], "little") == handler:
        return
    ctypes.memmove(_earlier_action, now, len(now))
    flags = _SA_SIGINFO | _SA_ONSTACK | _SA_NODEFER
    ctypes.memset(_handler_action, 0, len(_handler_action))
    _handler_action[:8] = handler.to_bytes(8, "little")
    _handler_action[136:140] = flags.to_bytes(4, "little")
    _libc().sigaction(signal.SIGSEGV, _handler_action, None)


def watch(ranges: list[tuple[int, int, int]]) -> None:
    """From now on these are ours: (first address, end, what a read opens the leaf for), on page boundaries.

    Raises MemoryError for more ranges than there is room for.
    """
    if len(ranges) > _RANGES:
        raise MemoryError(f"more than {_RANGES} live allocations of managed memory")
    _counts[0] = 0
    _ranges[: len(ranges)] = np.array(ranges, np.int64).reshape(-1, 3)
    _counts[0] = len(ranges)
    if ranges:
        _install()


def protect(address: int, nbytes: int, protection: int) -> None:
    """mprotect. Raises OSError."""
    if _libc().mprotect(address, nbytes, protection):
        raise OSError(ctypes.get_errno(), "mprotect of managed memory failed")


def noted() -> bool:
    """Whether there are notes to take."""
    return _counts[1] > 0


def take() -> list[tuple[int, bool]]:
    """(address, whether it was written) of each first touch since the last call, in order."""
    found = _notes[: _counts[1]].tolist()
    _counts[1] = 0
    return [(note >> 1, bool(note & 1)) for note in found]
