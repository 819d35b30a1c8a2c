"""`grader doctor`: what protects this machine from submissions, and what it can grade on."""

import platform
import shutil

from grader.devices import cuda, resolve
from grader.exits import FAILED
from grader.report.record import versions
from grader.sandbox import SandboxError
from grader.sandbox.doctor import OWN_MACHINE, protections


def main() -> int:
    """Print the report; 0 if submissions can be run locked in, 3 if not."""
    print(f"{platform.platform()}, Python {platform.python_version()}")
    print(", ".join(f"{name} {v}" for name, v in versions().items()))
    print(f"GPUs: {cuda.count() or 'none'}; `grader grade` uses {resolve('auto')} unless told otherwise")
    try:
        report = protections()
    except SandboxError as e:
        print(f"the sandbox does not start: {e}")
        return FAILED
    print(report)
    print("  (each was tried just now by an attack: held, it was stopped; OPEN, it succeeded)")
    for advice in _advice(report.level):
        print(advice)
    return 0 if report.level else FAILED


def _advice(level: int) -> list[str]:
    """What to do for more."""
    found = []
    if level == 0:
        found.append("for level 1, use Linux 5.13 or newer with Landlock, and allow seccomp filters in the container")
    if level < 2 and not shutil.which("bwrap"):
        found.append("for level 2, in which names of files are hidden too, install bubblewrap (the command bwrap)")
    elif level < 2:
        found.append("for level 2, let bwrap make user namespaces (containers forbid it by default)")
    if level < 3:
        found.append(
            f"for level 3, use a container or virtual machine for grading alone, and set {OWN_MACHINE}=1 in it"
        )
    return found
