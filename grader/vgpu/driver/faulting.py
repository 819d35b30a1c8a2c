"""Who touches which page of shared memory first: the processor's own page faults, turned into a log.

Pages that a kernel or the host may not touch unnoticed are protected (mprotect). The first access to one of them ends
in SIGSEGV, whose handler notes address and kind of the access, opens the leaf of 64 KB that holds it and returns, so
that the access is made again and succeeds. The handler is a few lines of machine code and needs no Python. Addresses
that are nobody's are handed on to whoever had the signal before.

The note about a *guarded* range says where in the program the access was made: the handler has faulthandler write the
thread's stack into a pipe, which needs no lock of the interpreter either.

A system call does not fault: given a protected buffer it returns EFAULT ("Bad address"). Before it is handed to one,
prefetch a managed array to the host, or copy it; a guarded one is still under way: wait for that first.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import faulthandler
import fcntl
import functools
import mmap
import os
import re
import signal

import llvmlite.binding as llvm
import numpy as np

LEAF = 64 << 10  # bytes that are opened at a time
NONE, READ, WRITE = 0, 1, 3  # PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE
NOTED, GUARDED, BOTH = range(3)  # what is kept of an access to a range: a note, one with the stack, each of them
RANGES, _NOTES = 1024, 1 << 18  # ranges of each kind
_ROW = 5  # words of a range in the table
_PIPE_BYTES = 1 << 20  # of stacks between two calls of the driver; what an unprivileged process may ask for
# Where Linux for x86-64 puts the faulting address in siginfo_t, and the page-fault error code in ucontext_t: bit 1 of
# it says that the access was a write (arch/x86/include/uapi/asm/sigcontext.h, Intel SDM volume 3, section 4.7).
_SI_ADDR, _REG_ERR = 16, 192
_MS_ASYNC = 1
_SA_SIGINFO, _SA_ONSTACK, _SA_NODEFER = 0x4, 0x08000000, 0x40000000

# Address of the table in use; notes; the address of the last fault that was nobody's; guarded notes; a lock; the signal
# whose handler writes the stack, and the handler; the pipe.
_words = np.zeros(8, np.int64)
_TABLE, _NOTED, _FOREIGN, _GUARDED, _LOCK, _SIGNAL, _WRITER, _PIPE = range(8)
# Two tables, of which one is in use: number of ranges, then of each its first address, end, protection after a read,
# bytes that are opened at a time, and what is kept.
_tables = np.zeros((2, 1 + _ROW * 2 * RANGES), np.int64)
_ranges: dict[str, list] = {"managed": [], "guard": []}
_notes = np.zeros(_NOTES, np.int64)  # address << 1 | written
_MARK = b"\0\1guard\0"  # before each guarded note in the pipe
_record = np.array([int.from_bytes(_MARK, "little"), 0], np.int64)  # and what is written after it: as in _notes
_handler_action = ctypes.create_string_buffer(152)  # struct sigaction
_earlier_action = ctypes.create_string_buffer(152)

_HANDLER = """
declare i32 @mprotect(i64, i64, i32)
declare i32 @sigaction(i32, ptr, ptr)
declare i64 @write(i32, ptr, i64)
declare i32 @sched_yield()
declare ptr @__errno_location()

define void @page_fault(i32 %signal, ptr %info, ptr %context) {{
entry:
  %errnop = call ptr @__errno_location()
  %errno = load i32, ptr %errnop
  %where = getelementptr i8, ptr %info, i64 {si_addr}
  %address = load i64, ptr %where
  %table_word = load i64, ptr inttoptr (i64 {table} to ptr)
  %table = inttoptr i64 %table_word to ptr
  %n = load i64, ptr %table
  br label %search
search:
  %k = phi i64 [ 0, %entry ], [ %next, %other ]
  %more = icmp ult i64 %k, %n
  br i1 %more, label %look, label %foreign
look:
  %words = mul i64 %k, {row}
  %row = getelementptr i64, ptr %table, i64 %words
  %firstp = getelementptr i64, ptr %row, i64 1
  %first = load i64, ptr %firstp
  %endp = getelementptr i64, ptr %row, i64 2
  %end = load i64, ptr %endp
  %above = icmp uge i64 %address, %first
  %below = icmp ult i64 %address, %end
  %inside = and i1 %above, %below
  br i1 %inside, label %ours, label %other
other:
  %next = add i64 %k, 1
  br label %search
ours:
  store i64 0, ptr inttoptr (i64 {foreign} to ptr)
  %errp = getelementptr i8, ptr %context, i64 {reg_err}
  %err = load i64, ptr %errp
  %bit = lshr i64 %err, 1
  %written = and i64 %bit, 1
  %is_write = icmp eq i64 %written, 1
  %readp = getelementptr i64, ptr %row, i64 3
  %read = load i64, ptr %readp
  %wide = select i1 %is_write, i64 3, i64 %read
  %protection = trunc i64 %wide to i32
  %leafp = getelementptr i64, ptr %row, i64 4
  %leaf = load i64, ptr %leafp
  %keptp = getelementptr i64, ptr %row, i64 5
  %kept = load i64, ptr %keptp
  %mask = sub i64 %leaf, 1
  %offset = sub i64 %address, %first
  %inside_leaf = and i64 %offset, %mask
  %start = sub i64 %address, %inside_leaf
  %full = add i64 %start, %leaf
  %fits = icmp ule i64 %full, %end
  %stop = select i1 %fits, i64 %full, i64 %end
  %length = sub i64 %stop, %start
  %opened = call i32 @mprotect(i64 %start, i64 %length, i32 %protection)
  %shifted = shl i64 %address, 1
  %entry_word = or i64 %shifted, %written
  %only_note = icmp eq i64 %kept, {only_note}
  br i1 %only_note, label %count, label %lock
lock:
  %taken = cmpxchg ptr inttoptr (i64 {lock} to ptr), i64 0, i64 1 seq_cst seq_cst
  %mine = extractvalue {{ i64, i1 }} %taken, 1
  br i1 %mine, label %guarded, label %busy
busy:
  %yielded = call i32 @sched_yield()
  br label %lock
guarded:
  store i64 %entry_word, ptr inttoptr (i64 {record_word} to ptr)
  %pipe = load i64, ptr inttoptr (i64 {pipe} to ptr)
  %fd = trunc i64 %pipe to i32
  %sent = call i64 @write(i32 %fd, ptr inttoptr (i64 {record} to ptr), i64 16)
  %writer_word = load i64, ptr inttoptr (i64 {writer} to ptr)
  %writer = inttoptr i64 %writer_word to ptr
  %number = load i64, ptr inttoptr (i64 {stack_signal} to ptr)
  %stack_signal = trunc i64 %number to i32
  call void %writer(i32 %stack_signal)
  store i64 1, ptr inttoptr (i64 {guarded} to ptr)
  store atomic i64 0, ptr inttoptr (i64 {lock} to ptr) seq_cst, align 8
  %both = icmp eq i64 %kept, {both}
  br i1 %both, label %count, label %done
count:
  %at = load i64, ptr inttoptr (i64 {noted} to ptr)
  %room = icmp ult i64 %at, {notes_limit}
  br i1 %room, label %note, label %done
note:
  %slot = getelementptr i64, ptr inttoptr (i64 {notes} to ptr), i64 %at
  store i64 %entry_word, ptr %slot
  %after = add i64 %at, 1
  store i64 %after, ptr inttoptr (i64 {noted} to ptr)
  br label %done
foreign:
  %last = load i64, ptr inttoptr (i64 {foreign} to ptr)
  %again = icmp eq i64 %last, %address
  store i64 %address, ptr inttoptr (i64 {foreign} to ptr)
  br i1 %again, label %hand_on, label %done
hand_on:
  %restored = call i32 @sigaction(i32 {sigsegv}, ptr inttoptr (i64 {earlier} to ptr), ptr null)
  br label %done
done:
  store i32 %errno, ptr %errnop
  ret void
}}
"""
# A fault that is nobody's is handed on when it comes again: another thread may have opened the page just now.


@functools.cache
def _libc():
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
    libc.msync.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
    libc.sigaction.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    return libc


@functools.cache
def _handler() -> int:
    """Address of the compiled handler."""
    from grader.vgpu.jit import compile

    for name in ("mprotect", "sigaction", "write", "sched_yield", "__errno_location"):
        llvm.add_symbol(name, ctypes.cast(getattr(_libc(), name), ctypes.c_void_p).value)
    words = {
        name: _words.ctypes.data + 8 * k
        for name, k in (
            ("table", _TABLE), ("noted", _NOTED), ("foreign", _FOREIGN), ("guarded", _GUARDED), ("lock", _LOCK),
            ("stack_signal", _SIGNAL), ("writer", _WRITER), ("pipe", _PIPE),
        )
    }  # fmt: skip
    text = _HANDLER.format(
        **words, si_addr=_SI_ADDR, reg_err=_REG_ERR, notes=_notes.ctypes.data, notes_limit=_NOTES,
        row=_ROW, only_note=NOTED, both=BOTH,
        record=_record.ctypes.data, record_word=_record.ctypes.data + 8, sigsegv=signal.SIGSEGV.value,
        earlier=ctypes.addressof(_earlier_action),
    )  # fmt: skip
    return compile.load(compile.compile_object(text), ("page_fault",))["page_fault"]


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


def watch(kind: str, ranges: list[tuple[int, int, int, int, int]]) -> None:
    """From now on these of the kind, "managed" or "guard", are ours: (first address, end, what a read opens for, bytes that
    are opened at a time, a power of two of pages; what is kept), on page boundaries.

    Raises MemoryError for more ranges than there is room for.
    """
    if len(ranges) > RANGES:
        raise MemoryError(f"more than {RANGES} ranges of {kind} memory")
    _ranges[kind] = ranges
    ranges = [row for rows in _ranges.values() for row in rows]
    table = _tables[int(_words[_TABLE] == _tables[0].ctypes.data)]  # the one that no thread is reading
    table[0] = len(ranges)
    table[1 : 1 + _ROW * len(ranges)] = np.array(ranges, np.int64).reshape(-1)
    _words[_TABLE] = table.ctypes.data
    if ranges:
        _install()


def protect(address: int, nbytes: int, protection: int) -> None:
    """mprotect. Raises OSError."""
    if _libc().mprotect(address, nbytes, protection):
        raise OSError(ctypes.get_errno(), f"mprotect of {nbytes} bytes at {address:#x} failed")


def is_mapped(address: int, nbytes: int) -> bool:
    """Whether memory is there: the program may have given it back to the system."""
    first = address // mmap.PAGESIZE * mmap.PAGESIZE
    # It does nothing but look (msync(2)). Where a sandbox forbids even that, nobody knows better than the program.
    return _libc().msync(first, address + nbytes - first, _MS_ASYNC) == 0 or ctypes.get_errno() != errno.ENOMEM


def noted() -> bool:
    """Whether there are notes to take."""
    return _words[_NOTED] > 0


def take() -> list[tuple[int, bool]]:
    """(address, whether it was written) of each first touch since the last call, in order."""
    found = _notes[: _words[_NOTED]].tolist()
    _words[_NOTED] = 0
    return [(note >> 1, bool(note & 1)) for note in found]


# ------------------------------------------------------------------ guarded ranges
_FRAME = re.compile(r'^  File "(.*)", line (\d+) in ', re.MULTILINE)
_ESCAPE = re.compile(r"\\x[0-9a-f]{2}|\\u[0-9a-f]{4}|\\U[0-9a-f]{8}")  # how faulthandler writes other characters
_read_end = -1


def can_guard() -> bool:
    """Make the pipe and find out who writes a stack, at the first call; False where no signal number is free for it."""
    if _words[_WRITER]:
        return True
    global _read_end
    free = [n for n in range(signal.SIGRTMAX, signal.SIGRTMIN, -1) if signal.getsignal(n) == signal.SIG_DFL]
    if not free:
        return False
    _read_end, end = _pipe()
    # Registered for a signal that nobody sends: what is wanted is the C function that then stands in the table.
    faulthandler.register(free[0], file=end, all_threads=False, chain=False)
    action = ctypes.create_string_buffer(len(_handler_action))
    _libc().sigaction(free[0], None, action)
    _words[_PIPE], _words[_SIGNAL] = end, free[0]
    _words[_WRITER] = int.from_bytes(action[:8], "little")
    return True


def _pipe() -> tuple[int, int]:
    ends = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    with contextlib.suppress(OSError):  # a smaller one loses the last of many touches
        fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return ends


def _after_fork() -> None:
    """The child gets a pipe of its own under the same numbers."""
    _words[_LOCK] = _words[_GUARDED] = 0
    if _words[_WRITER]:
        for fresh, old in zip(_pipe(), (_read_end, int(_words[_PIPE])), strict=True):
            os.dup2(fresh, old, inheritable=False)
            os.close(fresh)


os.register_at_fork(after_in_child=_after_fork)


def guard_noted() -> bool:
    """Whether there are notes of guarded ranges to take."""
    return _words[_GUARDED] > 0


def take_guarded() -> list[tuple[int, bool, list[tuple[str, int]]]]:
    """(address, whether it was written, [(file, line)] of the stack, innermost first) since the last call, in order.

    A thread that runs no Python has no stack.
    """
    _words[_GUARDED] = 0
    data = b""
    try:
        while piece := os.read(_read_end, 1 << 16):
            data += piece
    except BlockingIOError:
        pass
    found = []
    for note in data.split(_MARK)[1:]:
        word, stack = int.from_bytes(note[:8], "little"), note[8:].decode("ascii", "replace")
        frames = [(_ESCAPE.sub(_character, name), int(line)) for name, line in _FRAME.findall(stack)]
        found.append((word >> 1, bool(word & 1), frames))
    return found


def _character(match: re.Match) -> str:
    return chr(int(match[0][2:], 16))
