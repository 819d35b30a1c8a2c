"""Errors that come out of numba and CUDA in a notebook: with the user's own lines, without dozens of numba's.

A misspelt name in a kernel would else fill four screens, and the line that matters stands at neither end.
"""

import sysconfig
from collections.abc import Iterator
from types import TracebackType

_LIBRARIES = tuple({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
_OURS = tuple(f"{folder}/{package}" for folder in _LIBRARIES for package in ("numba", "cuda"))  # numba_cuda too


def register(shell) -> None:
    """Have an IPython shell show them so. `%xmode Verbose` shows everything."""
    shell.set_custom_exc((Exception,), _show)


def unregister(shell) -> None:
    """As IPython comes."""
    shell.set_custom_exc((), None)


def own(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames of installed libraries; None if nothing is left."""
    short = None
    for entry in reversed(list(_entries(trace))):
        if not _file(entry).startswith(_LIBRARIES):
            short = TracebackType(short, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return short


def _show(shell, kind, error, trace, tb_offset=None) -> None:
    """Show an error by IPython's own means."""
    short = own(trace) if any(_file(entry).startswith(_OURS) for entry in _entries(trace)) else None
    if not short or shell.InteractiveTB.mode == "Verbose" or hasattr(error, "_render_traceback_"):
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset, running_compiled_code=True)
        return
    error.__cause__, error.__suppress_context__ = None, True  # numba's earlier tries; the last one's message has it all
    # No offset: the frame that IPython skips, its own, is gone.
    shell._showtraceback(kind, error, shell.InteractiveTB.structured_traceback(kind, error, short, tb_offset=0))


def _entries(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _file(entry: TracebackType) -> str:
    return entry.tb_frame.f_code.co_filename
