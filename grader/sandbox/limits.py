"""Limits of one job, and the part of them that the kernel enforces on the child by itself."""

import resource
from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Limits of one job; sizes in units of 1024.

    Memory is counted on top of what the zygote had mapped when it forked, so that a limit means the same whatever was
    imported before.
    """

    cpu_s: int = 20  # processor time, whole seconds
    wall_s: float = 30.0  # seconds from the child being ready to its end
    memory_mb: int = 2048  # address space, and so memory, that the job may add; numba needs about 300 to compile
    output_kb: int = 64  # stdout and stderr together; more of it ends the job
    result_mb: int = 64  # blobs that the job returns, in total
    header_kb: int = 1024  # the JSON that the job returns
    stack_mb: int = 64  # stack of the main thread
    files: int = 64  # open files
    threads: bool = False  # may start threads (processes never)

    def __post_init__(self) -> None:
        """Raise ValueError for a limit that would end every job."""
        for name in ("cpu_s", "wall_s", "memory_mb", "output_kb", "result_mb", "header_kb", "stack_mb"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive, not {getattr(self, name)}")
        if self.files < 16:
            raise ValueError(f"files must be at least 16, not {self.files}")


def address_space() -> int:
    """Bytes of address space that the calling process has mapped."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[0]) * resource.getpagesize()


def apply(limits: Limits, base_bytes: int) -> None:
    """Set the resource limits of the calling process; `base_bytes` of address space are free of charge.

    RLIMIT_NPROC does not bind root: new processes are seccomp's to deny. A write to a file fails with EFBIG, because
    Python leaves SIGXFSZ ignored. Raises OSError.
    """
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_RTPRIO: 0,
        resource.RLIMIT_NOFILE: limits.files,
        resource.RLIMIT_STACK: limits.stack_mb * MIB,
        resource.RLIMIT_AS: base_bytes + limits.memory_mb * MIB,
    }
    if not limits.threads:
        wanted[resource.RLIMIT_NPROC] = 0
    for which, value in wanted.items():
        _lower(which, value, value)
    # SIGXCPU at the limit; SIGKILL a second later for those who ignore it.
    _lower(resource.RLIMIT_CPU, limits.cpu_s, limits.cpu_s + 1)


def _lower(which: int, soft: int, hard: int) -> None:
    """Set a limit, but never above the one already in force."""
    _, ceiling = resource.getrlimit(which)
    if ceiling != resource.RLIM_INFINITY:
        soft, hard = min(soft, ceiling), min(hard, ceiling)
    resource.setrlimit(which, (soft, hard))
