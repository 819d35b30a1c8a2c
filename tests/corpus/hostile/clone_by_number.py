# expect: error RTE
import ctypes
import errno
import os

libc = ctypes.CDLL(None, use_errno=True)
if libc.syscall(56 if os.uname().machine == "x86_64" else 220, 17, 0, 0, 0, 0) < 0:
    raise OSError(ctypes.get_errno(), errno.errorcode[ctypes.get_errno()])
