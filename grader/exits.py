"""Exit statuses of the commands, and how a command says that it cannot be carried out as given."""

import sys

from grader.report.printable import printable

USAGE, FAILED, INTERRUPTED = 2, 3, 130
_MEANING = {0: "done", USAGE: "not usable as given", FAILED: "the grader failed", INTERRUPTED: "interrupted"}


def listed(**special: str) -> str:
    """What a command's --help says of its exit status; special: what else one means there, as `s0="graded"`."""
    found = _MEANING | {int(name[1:]): text for name, text in special.items()}
    return "exit status:\n" + "\n".join(f"  {status:<5} {found[status]}" for status in sorted(found) if found[status])


def refuse(message: str) -> int:
    """Say one sentence on stderr; the status to exit with."""
    print(f"grader: {printable(message)}", file=sys.stderr)
    return USAGE
