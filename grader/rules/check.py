"""A check is a rule's answer; a rule is a small function of the evidence, worth points."""

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from grader.evidence import Evidence

Passed = Literal[True, False, None, "skipped"]  # None: could not be checked


@dataclass(frozen=True)
class Check:
    """What a rule says. `passed` and `failed` make one; `judge` fills in name and points."""

    passed: Passed
    message: str  # a sentence with the numbers
    hint: str = ""  # one thing to try
    share: float = 1.0  # of the rule's points, when passed
    code: str = ""  # verdict code when failed; empty: the rule's own
    name: str = ""
    title: str = ""  # the rule's docstring: what the student reads
    points: float = 0.0
    max_points: float = 0.0


@dataclass(frozen=True)
class Rule:
    """A row of a rubric."""

    function: Callable[..., Check]
    points: float = 0.0
    code: str = ""  # verdict when it fails: CE, RTE, WA, SLOW; empty: only points are lost
    needs: tuple[str, ...] = ()  # skipped unless these passed
    pays_with: tuple[str, ...] = ("right_values",)  # passed, but worth nothing unless these passed too
    options: dict[str, Any] = field(default_factory=dict)  # passed on to the function

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.__name__

    @property
    def title(self) -> str:
        """First line of the function's docstring."""
        return (self.function.__doc__ or self.name).strip().splitlines()[0].rstrip(".")


def passed(message: str, share: float = 1.0) -> Check:
    """The rule holds; `share` of its points are due."""
    return Check(True, message, share=share)


def failed(message: str, hint: str = "", code: str = "") -> Check:
    """The rule does not hold."""
    return Check(False, message, hint, share=0.0, code=code)


def unknown(message: str) -> Check:
    """It could not be checked here; that costs the student nothing."""
    return Check(None, message)


def judge(rubric: Sequence[Rule], evidence: Evidence) -> list[Check]:
    """Apply a rubric. A rule that itself breaks is a fault of the grader: code IE, nothing lost by the student."""
    checks: dict[str, Check] = {}
    for rule in rubric:
        missing = [n for n in rule.needs if n in checks and _unmet(checks[n])]
        if missing:
            why = (
                "the grader failed"
                if any(c.code == "IE" for c in checks.values())
                else _unmet_words(checks[missing[0]])
            )
            check = Check("skipped", f"not checked, because {why}", share=0.0)
        else:
            try:
                check = rule.function(evidence, **rule.options)
            except Exception:
                check = Check(None, f"the grader failed here: {traceback.format_exc(limit=-2)}", code="IE")
        code = check.code or (rule.code if check.passed is False else "")
        checks[rule.name] = replace(check, name=rule.name, title=rule.title, max_points=rule.points, code=code)
    return [_paid(r, checks) for r in rubric]


def _paid(rule: Rule, checks: dict[str, Check]) -> Check:
    """The check with its points; where another rule's failure holds them back, its message says so."""
    check = checks[rule.name]
    if check.passed not in (True, None):
        return check
    held = [checks[n] for n in rule.pays_with if n in checks and checks[n].passed not in (True, None)]
    if not held:
        return replace(check, points=round(rule.points * check.share, 2))
    # The first that failed, not one that was skipped because of it.
    first = next((c for c in held if c.passed is False), held[0])
    due = rule.points and check.share
    return replace(check, message=f"{check.message}; no points, because {_unmet_words(first)}") if due else check


def _unmet(check: Check) -> bool:
    return check.passed in (False, "skipped") or check.code == "IE"


def _unmet_words(check: Check) -> str:
    return f'"{check.title}" did not pass'
