"""`grader doctor`: what protects this machine from submissions, and what it can grade on."""

import platform
import shutil

from grader.devices import cuda, resolve
from grader.report.record import versions
from grader.sandbox import SandboxError
from grader.sandbox.doctor import protections


def main() -> int:
    """Print the report; 0 if submissions can be run locked in, 3 if not."""
    print(f"{platform.platform()}, Python {platform.python_version()}")
    print(", ".join(f"{name} {v}" for name, v in versions().items()))
    print(f"GPUs: {cuda.count() or 'none'}; `grader grade` uses {resolve('auto')} unless told otherwise")
    try:
        report = protections()
    except SandboxError as e:
        print(f"the sandbox does not start: {e}")
        return 3
    print(report)
    if report.level == 1 and not shutil.which("bwrap"):
        print("for level 2, install bubblewrap (the command bwrap)")
    return 0 if report.level else 3
