"""What a forked child does: import the job, lock itself, read the request, run the job, hand over one frame.

Everything before the ready frame is trusted code; a failure up to there is the grader's. Everything after it may be
under a student's control, this very module included.
"""

import contextlib
import fcntl
import gc
import importlib
import io
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

from . import lockdown, privileges, wire
from .limits import Limits

REQUEST_FD, RESULT_FD = 3, 4
_ABOVE = 10  # where descriptors are parked while they are sorted
_TRACEBACK_CHARACTERS = 8000
_TRACEBACK_ENTRIES = 100  # the last ones: without a limit on recursion there are millions
_UNLIMITED = 1 << 40


def main(message: dict, fds: list[int], prepared: lockdown.Prepared) -> NoReturn:
    """Be the child. `fds`: read end of the request, write ends of the output and of the result."""
    try:
        _main(message, fds, prepared)
    finally:
        # Whatever happened: no return into the zygote's code, no atexit functions, no destructors of the student's.
        os._exit(0)


def _main(message: dict, fds: list[int], prepared: lockdown.Prepared) -> None:
    result_fd = fds[2]
    try:
        privileges.die_with_parent()
        os.setsid()
        job = resolve(message["job"])
        # The order counts: the descriptor of the Landlock rules is in use until the lock is on.
        in_force = lockdown.apply(prepared, Limits(**message["limits"]))
        _arrange(fds)
        result_fd = RESULT_FD
        _fresh_interpreter()
        ready = {"ready": True, "protections": in_force}
    except BaseException:
        ready = {"ready": False, "message": traceback.format_exc()[-_TRACEBACK_CHARACTERS:]}
    _send(wire.pack(ready), result_fd)
    if ready["ready"]:
        request, blobs = _receive()
        _send(_attempt(job, request, blobs), RESULT_FD)


def resolve(name: str) -> Callable:
    """Import "package.module:function". Raises ImportError, AttributeError or ValueError."""
    module, _, function = name.partition(":")
    if not function:
        raise ValueError(f"{name!r} is not of the form package.module:function")
    return getattr(importlib.import_module(module), function)


def _arrange(fds: list[int]) -> None:
    """Nothing stays open but 0 (/dev/null), 1 and 2 (the output), the request and the result."""
    parked = [fcntl.fcntl(fd, fcntl.F_DUPFD, _ABOVE) for fd in fds]
    null = fcntl.fcntl(os.open(os.devnull, os.O_RDONLY), fcntl.F_DUPFD, _ABOVE)
    for fd, target in ((null, 0), (parked[1], 1), (parked[1], 2), (parked[0], REQUEST_FD), (parked[2], RESULT_FD)):
        os.dup2(fd, target)
    os.closerange(RESULT_FD + 1, 1 << 16)


def _fresh_interpreter() -> None:
    """Undo what the zygote set for itself."""
    for number in signal.valid_signals():
        if number not in (signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE, signal.SIGXFSZ):
            # The last two stay ignored, as Python has them: EPIPE and EFBIG instead of death.
            with contextlib.suppress(OSError):  # signals that the C library keeps to itself
                signal.signal(number, signal.SIG_DFL)
    sys.argv = [""]
    sys.dont_write_bytecode = True
    # Anew, because the zygote's have other files behind them; by the line, so that a crash swallows little.
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.FileIO(0, "r", closefd=False), encoding="utf-8")
    sys.stdout = sys.__stdout__ = _text_output(1)
    sys.stderr = sys.__stderr__ = _text_output(2)
    gc.enable()


def _text_output(fd: int) -> io.TextIOWrapper:
    raw = io.FileIO(fd, "w", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace", line_buffering=True)


def _receive() -> tuple[dict, list[bytes]]:
    reader = wire.Reader(max_header=_UNLIMITED, max_blobs=_UNLIMITED)
    while (frame := reader.next()) is None:
        data = os.read(REQUEST_FD, 1 << 20)
        if not data:
            os._exit(0)  # the client has gone
        reader.feed(data)
    os.close(REQUEST_FD)
    return frame


def _send(pieces: list[bytes], fd: int) -> None:
    for piece in pieces:
        rest = memoryview(piece)
        while rest:
            rest = rest[os.write(fd, rest) :]


def _attempt(job: Callable, request: dict, blobs: list[bytes]) -> list[bytes]:
    """Run the job; give the frame that tells how it went."""
    try:
        header, results = job(request, blobs)
        pieces = wire.pack({"status": "ok", "header": header}, results)
    except BaseException as error:  # SystemExit too: a student who calls exit() has not ended the grader's child
        pieces = wire.pack(_describe(error))
    for stream in (sys.stdout, sys.stderr):
        # The student may have closed or replaced it, with anything.
        with contextlib.suppress(BaseException):
            stream.flush()
    return pieces


def _describe(error: BaseException) -> dict:
    out_of_memory = isinstance(error, MemoryError)
    try:
        # The first entry is this module's call of the job.
        own = error.__traceback__ and error.__traceback__.tb_next
        lines = traceback.format_exception(type(error), error, own, limit=-_TRACEBACK_ENTRIES)
        message, trace = str(error), "".join(lines)
    except BaseException as second:  # a hostile __str__, or no memory left to say it
        message, trace = f"(cannot be shown: {type(second).__name__})", ""
        # C code that is refused memory may leave a SystemError or a RecursionError instead.
        out_of_memory = out_of_memory or isinstance(second, MemoryError)
    return {
        "status": "error",
        "type": type(error).__name__,
        "message": message[:_TRACEBACK_CHARACTERS],
        "traceback": trace[-_TRACEBACK_CHARACTERS:],
        "out_of_memory": out_of_memory,
    }
