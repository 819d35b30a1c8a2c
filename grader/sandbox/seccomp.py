"""The system call filter of a child: an allow list, in classic BPF as seccomp(2) wants it.

Three answers. *Allowed*: what a Python process that computes needs once its imports are done. *Refused* (EPERM, the
default): what innocent libraries may try, such as fork, socket, mkdir. *Killed* (SIGSYS, reported as a violation): what
only an attack calls.
"""

import ctypes
import errno
import platform
import signal
import struct
from collections.abc import Iterable

from . import kernel
from .syscalls import AUDIT_ARCH, number

ALLOW = 0x7FFF0000
KILL = 0x80000000
EPERM = 0x00050000 | errno.EPERM
ENOSYS = 0x00050000 | errno.ENOSYS

_LOAD, _IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_OFFSET_NUMBER, _OFFSET_ARCH, _OFFSET_ARGUMENTS = 0, 4, 16
_X32_BIT = 0x40000000
_MODE_FILTER = 2
_GET_ACTION_AVAILABLE = 2

_ALLOWED = """
    read write readv writev pread64 pwrite64 open openat close close_range stat fstat lstat newfstatat statx lseek
    dup dup2 dup3 pipe pipe2 access faccessat faccessat2 readlink readlinkat getdents64 getcwd umask fadvise64
    poll ppoll select pselect6 epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd2
    mmap munmap mprotect mremap brk madvise mincore msync membarrier mbind get_mempolicy
    futex set_robust_list get_robust_list rseq set_tid_address sched_yield sched_getaffinity sched_getparam
    sched_getscheduler sched_get_priority_min sched_get_priority_max exit exit_group wait4 waitid
    clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time times getrusage getitimer setitimer alarm
    pause
    rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigsuspend rt_sigtimedwait sigaltstack restart_syscall
    getrandom getpid getppid gettid getuid geteuid getgid getegid getresuid getresgid getgroups getpgrp getpgid getsid
    uname sysinfo getcpu getpriority getrlimit
"""

_HOSTILE = """
    execve execveat ptrace process_vm_readv process_vm_writev process_mrelease kcmp
    pidfd_getfd pidfd_send_signal rt_sigqueueinfo rt_tgsigqueueinfo tkill
    unshare setns mount umount2 pivot_root chroot fsopen fsconfig fsmount fspick move_mount open_tree mount_setattr
    open_by_handle_at bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register
    keyctl add_key request_key fanotify_init kexec_load kexec_file_load init_module finit_module delete_module
    reboot swapon swapoff acct quotactl syslog iopl ioperm settimeofday clock_settime adjtimex clock_adjtime
    sethostname setdomainname vhangup modify_ldt
    setuid setgid setreuid setregid setresuid setresgid setfsuid setfsgid setgroups capset
"""

_CLONE_THREAD = 0x00010000
_TERMINAL_QUERIES = (0x5401, 0x5413, 0x5450, 0x5451, 0x541B)  # TCGETS TIOCGWINSZ FIONCLEX FIOCLEX FIONREAD
_SIGNAL_OWNERS = (8, 10, 15, 1024)  # F_SETOWN F_SETSIG F_SETOWN_EX F_SETLEASE
_THREAD_NAMES = (15, 16, 0x53564D41)  # PR_SET_NAME PR_GET_NAME PR_SET_VMA


class Filter:
    """A list of rules, tried in order; the first that names the system call decides."""

    def __init__(self, default: int) -> None:
        """Give `default` to every call without a rule. Raises OSError on a machine without a table."""
        arch = AUDIT_ARCH.get(platform.machine())
        if arch is None:
            raise OSError(errno.ENOSYS, f"no system call table for {platform.machine()}")
        self.default = default
        self.code = [
            _instruction(_LOAD, _OFFSET_ARCH),
            _instruction(_IF_EQUAL, arch, 1, 0),
            _instruction(_RETURN, KILL),
            _instruction(_LOAD, _OFFSET_NUMBER),
        ]
        if platform.machine() == "x86_64":
            # The x32 ABI reaches the same calls by other numbers.
            self.code += [_instruction(_IF_AT_LEAST, _X32_BIT, 0, 1), _instruction(_RETURN, KILL)]

    def answer(self, names: Iterable[str], action: int) -> None:
        """Give `action` to each named call."""
        for name in names:
            nr = number(name)
            if nr is not None:
                self.code += [_instruction(_IF_EQUAL, nr, 0, 1), _instruction(_RETURN, action)]

    def if_argument_is(self, name: str, argument: int, value: int, then: int) -> None:
        """Give `then` if the low 32 bits of an argument are `value`; else leave the call to later rules."""
        test = [_load_argument(argument), _instruction(_IF_EQUAL, value, 0, 1), _instruction(_RETURN, then)]
        self._guarded(name, [*test, _instruction(_LOAD, _OFFSET_NUMBER)])

    def if_argument_in(self, name: str, argument: int, values: Iterable[int], then: int, otherwise: int) -> None:
        """Decide by the low 32 bits of an argument: one of `values` or not."""
        body = [_load_argument(argument)]
        for value in values:
            body += [_instruction(_IF_EQUAL, value, 0, 1), _instruction(_RETURN, then)]
        self._guarded(name, [*body, _instruction(_RETURN, otherwise)])

    def if_argument_has(self, name: str, argument: int, bits: int, then: int, otherwise: int) -> None:
        """Decide by whether any of `bits` is set in the low 32 bits of an argument."""
        test = _instruction(_IF_ANY_BIT, bits, 0, 1)
        tail = [test, _instruction(_RETURN, then), _instruction(_RETURN, otherwise)]
        self._guarded(name, [_load_argument(argument), *tail])

    def _guarded(self, name: str, body: list[bytes]) -> None:
        nr = number(name)
        if nr is not None:
            self.code += [_instruction(_IF_EQUAL, nr, 0, len(body)), *body]

    def install(self) -> None:
        """Put the filter on the calling thread, for good; no_new_privileges() must be in force. Raises OSError."""
        code = [*self.code, _instruction(_RETURN, self.default)]
        buffer = ctypes.create_string_buffer(b"".join(code))
        program = ctypes.create_string_buffer(struct.pack("@HP", len(code), ctypes.addressof(buffer)))
        kernel.prctl(kernel.PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(program))


def available() -> bool:
    """Tell whether this kernel takes filters that kill a process, and this machine has a table here."""
    try:
        kernel.syscall("seccomp", _GET_ACTION_AVAILABLE, 0, struct.pack("=I", KILL))
    except OSError:
        return False
    return platform.machine() in AUDIT_ARCH


def child_filter(pid: int, threads: bool = False) -> Filter:
    """Build the filter for a child with this process id. Raises OSError on a machine without a table."""
    rules = Filter(EPERM)
    rules.answer(_ALLOWED.split(), ALLOW)
    rules.answer(_HOSTILE.split(), KILL)
    # glibc tries clone3 first, whose flags lie in memory that BPF cannot read, and falls back to clone on ENOSYS.
    rules.answer(["clone3"], ENOSYS)
    if threads:
        rules.if_argument_has("clone", 0, _CLONE_THREAD, ALLOW, EPERM)
    for name, signal_argument in (("kill", 1), ("tgkill", 2)):
        # So that a child found dead of SIGKILL was killed from outside, whatever the student tried.
        rules.if_argument_is(name, signal_argument, signal.SIGKILL, KILL)
        rules.if_argument_in(name, 0, [pid], ALLOW, KILL)
    rules.if_argument_in("prlimit64", 0, [0, pid], ALLOW, KILL)
    rules.if_argument_in("prctl", 0, _THREAD_NAMES, ALLOW, EPERM)
    rules.if_argument_in("fcntl", 1, _SIGNAL_OWNERS, EPERM, ALLOW)
    rules.if_argument_in("ioctl", 1, _TERMINAL_QUERIES, ALLOW, EPERM)
    return rules


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value & 0xFFFFFFFF)


def _load_argument(index: int) -> bytes:
    return _instruction(_LOAD, _OFFSET_ARGUMENTS + 8 * index)
