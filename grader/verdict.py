"""From evidence to a verdict: which rules hold, one code, points."""

from dataclasses import dataclass

from grader.evidence import CHOICE, BuildError, Built, Evidence, Timing
from grader.rules.check import Check, judge

# Strongest first: a submission gets the strongest code that any of its failed rules carries.
CODES = ("IE", "SV", "CE", "TLE", "MLE", "OLE", "RTE", "WA", "SLOW", "AC")

MEANING = {
    "IE": "the grader failed; not the student's fault, graded again by staff",
    "SV": "the sandbox was violated; held for review",
    "CE": "does not compile",
    "TLE": "does not end in time",
    "MLE": "needs too much memory",
    "OLE": "prints too much",
    "RTE": "fails when run, or a sanitizer finds a hazard",
    "WA": "wrong values",
    "SLOW": "right, but under the asked speed",
    "AC": "accepted",
}


@dataclass(frozen=True)
class Verdict:
    """What a submission gets for one exercise."""

    code: str  # one of CODES
    points: float
    max_points: float
    checks: tuple[Check, ...]  # one a rule of the rubric, in its order
    evidence: Evidence

    @property
    def timing(self) -> Timing | None:
        """The timed part, if it came to that."""
        return self.evidence.timing

    @property
    def flags(self) -> tuple[str, ...]:
        """What a person should look at; none of it costs points by itself."""
        return (*self.evidence.built.flags, *live_flags(self.evidence), *(self.timing.flags if self.timing else ()))

    @property
    def message(self) -> str:
        """The sentence of the check that decided the code; for AC the time."""
        decisive = [c for c in self.checks if c.code == self.code] or [
            c for c in self.checks if c.name == "fast_enough"
        ]
        return (decisive or [c for c in self.checks if c.name == "right_values"])[0].message


def live_flags(e: Evidence) -> list[str]:
    """What a person has to know of an answer that was graded live: its process knew the inputs."""
    if not e.built.live:
        return []
    flags = [f"held for review: graded live, because {e.built.live}"]
    if share := max((swap.hosts / swap.results for swap in e.swaps), default=0.0):
        flags.append(
            f"what its host computed of its arrays is up to {max(share, 0.01):.0%} of the size of the results; the time that this"
            " takes is not counted"
        )
    if compiled := [swap for swap in e.swaps if swap.kernels]:
        flags.append(
            f"{compiled[0].case.name}: {compiled[0].kernels} of the modules of kernels are compiled for these inputs alone:"
            " look whether they hold the answer"
        )
    if faults := [swap for swap in e.swaps if swap.fault]:
        said = f"{faults[0].case.name}: {faults[0].fault}"
        flags.append(f"its calls could not be played with other inputs to see whether the results follow ({said})")
    if 0 < (largest := max((swap.results for swap in e.swaps), default=0)) <= CHOICE:
        flags.append(
            f"no size has more than {largest} bytes of results: so few could lie in what its host chooses by the data"
            " (numbers in a kernel's code, places, order) unseen, so nothing that was tried proves who computed them:"
            " look at its code"
        )
    return flags


def decide(evidence: Evidence) -> Verdict:
    """Judge by the exercise's rubric. Points count for AC, SLOW and as far as rules pay; IE and SV hold them back."""
    checks = tuple(judge(evidence.problem.rubric, evidence))
    found = {c.code for c in checks if c.code}
    code = next(c for c in CODES if c in found or c == "AC")
    points = 0.0 if code in ("IE", "SV") else round(sum(c.points for c in checks), 2)
    return Verdict(code, points, evidence.problem.max_points, checks, evidence)


def refused(problem, code: str, message: str, detail: str = "") -> Verdict:
    """A verdict for what could not even be run: unreadable text, or a failure of the grader (IE)."""
    return decide(Evidence(problem, Built(error=BuildError(code, message, detail))))
