"""Giving up what a process could do to others: capabilities, namespaces, being looked into."""

import errno
import os
import struct

from . import kernel

_CLONE_NEWUTS = 0x04000000
_CLONE_NEWIPC = 0x08000000
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWPID = 0x20000000
_CLONE_NEWNET = 0x40000000

_CAPABILITY_VERSION_3 = 0x20080522
_PR_CAP_AMBIENT_CLEAR_ALL = 4


def hide() -> None:
    """Make this process undumpable: others of the same user may not trace it or open its memory in /proc."""
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)


def no_new_privileges() -> None:
    """Programs started from here gain nothing from set-user-id bits. Never to be undone."""
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)


def die_with_parent() -> None:
    """Be killed when the *thread* that forked this process ends."""
    kernel.prctl(kernel.PR_SET_PDEATHSIG, 9)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent has died."""
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)


def drop_capabilities() -> None:
    """Empty every capability set; the user id stays. Raises OSError."""
    for capability in range(64):
        try:
            kernel.prctl(kernel.PR_CAPBSET_DROP, capability)
        except OSError as error:
            # EINVAL: past the last capability. EPERM: no CAP_SETPCAP, so there is nothing in the set to be gained
            # either, once no_new_privileges() is in force.
            if error.errno in (errno.EINVAL, errno.EPERM):
                break
            raise
    kernel.prctl(kernel.PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    kernel.syscall("capset", struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), bytes(24))


def enter_namespaces() -> tuple[str, ...]:
    """Leave the host's network, IPC, host name and process ids, as far as this machine lets us.

    Gives the names of the namespaces entered, () where they are blocked, as in a container with Docker's default
    filter. Processes forked from now on are in the new pid namespace; the caller itself is not. Needs a single-threaded
    process that is still dumpable.
    """
    flags = _CLONE_NEWNET | _CLONE_NEWIPC | _CLONE_NEWUTS | _CLONE_NEWPID
    uid, gid = os.getuid(), os.getgid()
    try:
        kernel.syscall("unshare", flags | _CLONE_NEWUSER)
    except OSError:
        return ()
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as map_file:
            map_file.write(text)
    return ("user", "net", "ipc", "uts", "pid")
