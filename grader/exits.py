"""Exit statuses of the commands, and how a command says that it cannot be carried out as given."""

import sys

from grader.report.printable import printable

USAGE, FAILED, INTERRUPTED = 2, 3, 130


def refuse(message: str) -> int:
    """Say one sentence on stderr; the status to exit with."""
    print(f"grader: {printable(message)}", file=sys.stderr)
    return USAGE
