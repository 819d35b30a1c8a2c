"""Runs untrusted Python, and trusted code on hostile data, in locked children forked from a pre-warmed process.

    from grader.sandbox import Limits, Zygote

    with Zygote(warm="grader.jobs:warm_student") as zygote:
        outcome = zygote.run("grader.jobs:record", {"exercise": "saxpy"}, [source], Limits(wall_s=10))
    outcome.status      # "ok", "error", "time", "memory", "output", "crashed", "killed", "violation" or "no_result"
    outcome.header      # the dict that the job returned
    outcome.blobs       # the bytes objects that the job returned

**Three processes.** The *client* (`Zygote`, in the judging process) owns the limits, the clock and the outcome. The
*zygote* imports what jobs need, once, by calling the function that `warm` names; it stays single-threaded, is given a
clean environment and never sees a request's data. Each `run` forks a *child* of it, which imports the job, locks itself
down, reads the request, calls the job and is gone.

**A job** is a module-level function, named `"package.module:function"`:

    def record(request: dict, blobs: list[bytes]) -> tuple[dict, list[bytes]]: ...

`request` and the returned dict are what JSON can carry (no NaN); blobs are bytes, in both directions. The job's module
is imported after the fork but *before* the doors close; what the job imports later must lie in site-packages, the
standard library or a directory named in `Zygote(readable=...)`. `grader` itself is not readable in the child, apart
from `grader/vgpu` and `grader/sandbox`: let the warm function, or the top of the job's module, import the rest. Nothing
that a student may not read (references, hidden cases) belongs in the memory of a zygote whose children run student
Python.
A child can write no file at all, so a library that wants a cache directory when it is imported (matplotlib) must be
imported by the warm function.

**Outcomes are data chosen by the child.** An "ok" says that a well-formed result arrived, never that it is right:
student code can forge anything that the job could have sent. An exception that the job raises is the outcome "error",
with `outcome.error.type`, `.message` and `.traceback`. `SandboxError` is raised when the sandbox itself failed: the
grader's fault, never the student's.

**"violation"** is told from mere refusal by the kernel: system calls that no library tries in innocence (ptrace,
process_vm_writev, mount, bpf, setns, execve, a signal to another process, ...) kill the child with SIGSYS. What
innocent libraries do try (fork, socket, mkdir, chmod, opening a file) fails with PermissionError, and the job goes on.

Jobs of one zygote run one at a time (`run` may be called from any thread and waits its turn); for parallel work use
several zygotes. Use a separate zygote for trusted code on hostile data (assembling PTX, replaying a program), so that
no student Python ever ran in it or in its children.
"""

from .client import SandboxError, Zygote
from .limits import Limits
from .outcome import VERDICTS, JobError, Outcome

__all__ = ["VERDICTS", "JobError", "Limits", "Outcome", "SandboxError", "Zygote"]
