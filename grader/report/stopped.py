"""What of a submission ended with an error while the rest of it was graded, in words for its author."""

ADVICE = (
    "Some of your code ended with an error; the rest was run and graded. Restart, run everything from the top, and mend"
    " what stops:"
)


def stopped(record: dict) -> list[str]:
    """A line a cell, "cell 3, line 1: NameError: ..."."""
    return [_once(said) for said in record["failed_cells"]]


def _once(said: str) -> str:
    """Without the cell's name before a place that begins with it."""
    label, _, rest = said.partition(": ")
    return rest if rest.startswith(label) else said
