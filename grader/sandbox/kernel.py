"""The two doors to the kernel that the standard library leaves shut: `syscall` and `prctl`."""

import ctypes
import os

from .syscalls import number

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4

# The options of prctl(2) that are used here.
PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47


def syscall(name: str, *arguments: object) -> int:
    """Make the system call `name`; integers among the arguments are passed as 64-bit values. Raises OSError."""
    nr = number(name)
    if nr is None:
        raise OSError(38, f"{name}: not on this machine")
    passed = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return _checked(_libc.syscall(ctypes.c_long(nr), *passed))


def prctl(option: int, argument: int = 0, second: int = 0) -> int:
    """Call prctl(2). Raises OSError."""
    return _checked(_libc.prctl(option, argument, second, 0, 0))


def _checked(result: int) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result
