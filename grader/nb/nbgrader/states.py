"""What came of a notebook that was to be handed in, in a word; and what that word means for the mark."""

from dataclasses import asdict, dataclass

GRADED, TIMEOUT, KILLED = "graded", "timeout", "killed"  # judged: the points count
MISSING = "missing"  # nothing was handed in: 0 in the gradebook, as everywhere in nbgrader
UNREADABLE = "unreadable"  # what was handed in cannot be read: code CE; a person decides
ERROR = "error"  # the grader failed; never the student's 0
HELD = "held"  # the sandbox was violated: a person decides

# Worst first: the state of an assignment is the worst of its exercises'.
ORDER = (ERROR, HELD, UNREADABLE, KILLED, TIMEOUT, MISSING, GRADED)
UNMARKED = (ERROR, HELD, UNREADABLE)

MEANING = {
    GRADED: "graded",
    TIMEOUT: "did not end in time",
    KILLED: "ended the process that it ran in, or was ended for what it used",
    MISSING: "not handed in",
    UNREADABLE: "cannot be read; not marked yet",
    ERROR: "not marked; staff will look at it",
    HELD: "held for review; not marked yet",
}
_CODES = {"TLE": TIMEOUT, "MLE": KILLED, "OLE": KILLED, "SV": HELD, "IE": ERROR}
_GONE = ("crashed", "killed", "no_result")  # statuses of grader.sandbox.Outcome


@dataclass(frozen=True)
class Mark:
    """What one test cell gets."""

    state: str
    score: float | None  # of the cell's points; None: not marked
    code: str  # verdict code, "" without a verdict
    message: str  # one sentence for the student

    def to_dict(self) -> dict:
        """As the metadata of an autograded notebook keeps it."""
        return asdict(self)


def of_record(record: dict, points: float) -> Mark:
    """The mark for a grader's record, for a cell that is worth `points`."""
    state = _CODES.get(record["code"], GRADED)
    if record["code"] == "RTE" and record.get("ended") in _GONE:
        state = KILLED
    if record["code"] == "IE":
        return Mark(
            state, None, "IE", "The grader failed on this exercise. That is not your fault; staff will look at it."
        )
    share = record["points"] / record["max_points"] if record["max_points"] else 0.0
    score = None if state in UNMARKED else min(points, max(0.0, round(share * points, 4)))
    return Mark(state, score, record["code"], record["message"])


def worst(states) -> str:
    """The state to report for several."""
    return min(states, key=ORDER.index, default=GRADED)
