"""What came of one job."""

from dataclasses import dataclass, field

# Status -> verdict code for the student; "ok" has none, because the result is still to be judged.
VERDICTS = {
    "error": "RTE",
    "time": "TLE",
    "memory": "MLE",
    "output": "OLE",
    "crashed": "RTE",
    "killed": "IE",
    "violation": "SV",
    "no_result": "RTE",
}


@dataclass(frozen=True)
class JobError:
    """The exception that ended a job, as its child described it (untrusted text)."""

    type: str  # class name, e.g. "ZeroDivisionError"
    message: str
    traceback: str  # at most 8 kB, frames of the sandbox left out


@dataclass(frozen=True)
class Outcome:
    """The end of one job. Everything but the figures and the status is data that the child chose."""

    status: str  # "ok", or a key of VERDICTS
    detail: str  # one sentence on what happened, "" when ok
    header: dict = field(default_factory=dict)  # what the job returned; {} unless ok
    blobs: tuple[bytes, ...] = ()
    error: JobError | None = None  # only for "error", and for "memory" when Python could still tell
    output: str = ""  # end of what was printed to stdout and stderr, at most Limits.output_kb
    cpu_s: float = 0.0  # processor time of the child, seconds
    wall_s: float = 0.0  # from the child being locked down to its end, seconds
    maxrss_mb: float = 0.0  # peak resident memory, MiB, the zygote's imports included
    exit_code: int | None = None  # None when a signal ended it
    signal: str | None = None  # e.g. "SIGSEGV"
    protections: tuple[str, ...] = ()  # what was in force, e.g. ("rlimits", "landlock 7", "seccomp", ...)
