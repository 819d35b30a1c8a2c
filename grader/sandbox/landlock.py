"""Landlock: the file system, TCP, signals and abstract sockets, as the kernel's own documentation describes it.

What it does not cover, and seccomp must: stat and access, chmod and chown, UDP, prlimit and sched_* on other processes.
"""

import os
import struct
from collections.abc import Iterable

from . import kernel

_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_IOCTL_DEV = 1 << 15
_FILES_BY_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
_FILES_NEWEST = (1 << 15) - 1 | _IOCTL_DEV  # from ABI 5
_TCP = 0b11  # bind, connect; from ABI 4
_SCOPES = 0b11  # abstract unix sockets, signals; from ABI 6

_QUERY_VERSION = 1
_RULE_PATH_BENEATH = 1


def abi() -> int:
    """Version of Landlock that the running kernel offers; 0 when it has none, or it is switched off or filtered."""
    try:
        return kernel.syscall("landlock_create_ruleset", None, 0, _QUERY_VERSION)
    except OSError:
        return 0


class Ruleset:
    """Everything denied but reading beneath some paths. Built once, then put on by each child."""

    def __init__(self, readable: Iterable[str], listable: Iterable[str] = ()) -> None:
        """Allow reading files and listing directories beneath `readable`, only listing beneath `listable`.

        Paths that do not exist are left out. Raises OSError where there is no Landlock.
        """
        self.abi = abi()
        files = _FILES_BY_ABI.get(self.abi, _FILES_NEWEST)
        attributes = struct.pack("=QQQ", files, _TCP, _SCOPES)
        size = 8 if self.abi < 4 else 16 if self.abi < 6 else 24
        self.fd = kernel.syscall("landlock_create_ruleset", attributes[:size], size, 0)
        for path in readable:
            self._allow(path, _READ_FILE | _READ_DIR)
        for path in listable:
            self._allow(path, _READ_DIR)

    def _allow(self, path: str, rights: int) -> None:
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return
        try:
            if not os.path.isdir(path):
                rights &= _READ_FILE
            if rights:
                rule = struct.pack("=Qi", rights, fd)
                kernel.syscall("landlock_add_rule", self.fd, _RULE_PATH_BENEATH, rule, 0)
        finally:
            os.close(fd)

    def restrict_self(self) -> None:
        """Put the rules on the calling thread, for good; no_new_privileges() must be in force. Raises OSError."""
        kernel.syscall("landlock_restrict_self", self.fd, 0)
