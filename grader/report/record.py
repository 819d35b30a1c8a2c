"""One JSON object a graded submission. All other reports are made from it, so a stored result looks like a new one."""

import re
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from grader.evidence import Finding, Timing
from grader.listing import short_name
from grader.problems.model import Problem
from grader.verdict import MEANING, Verdict, refused

FORMAT = 1
UNPROTECTED = "nothing kept it from the grader: --trust-submissions on a machine that cannot lock it in"


def make(
    submission: str, verdict: Verdict, *, device: dict, seed: int, wall_seconds: float, protections=(),
    level: int | None = None,
) -> dict:  # fmt: skip
    """The record of a verdict.

    Keys: format, submission, exercise, title, code, meaning, message, points, max_points, checks, times, speedup,
    counters, ended, flags, findings, failed_cells, output, device, device_name, seed, versions, protections,
    sandbox_level (None: it was never run), wall_seconds.
    """
    evidence = verdict.evidence
    return {
        "format": FORMAT,
        "submission": submission,
        "exercise": evidence.problem.name,
        "title": evidence.problem.title,
        "code": verdict.code,
        "meaning": MEANING[verdict.code],
        "message": _readable(verdict.message),
        "points": verdict.points,
        "max_points": verdict.max_points,
        "checks": [_check(c) for c in verdict.checks],
        "times": _times(verdict.timing),
        "speedup": _speedup(verdict.timing),
        "counters": verdict.timing.sides["submission"].counters if verdict.timing and verdict.timing.sides else {},
        "ended": evidence.built.status,
        "flags": [*verdict.flags, *([UNPROTECTED] if protections and not level else [])],
        "findings": _findings(evidence),
        "failed_cells": list(evidence.built.failed_cells),
        "output": evidence.built.output[-4000:],
        "device": device["spec"],
        "device_name": device["name"],
        "seed": seed,
        "versions": versions(),
        "protections": list(protections),
        "sandbox_level": level,
        "wall_seconds": round(wall_seconds, 3),
    }


def refusal(submission: str, problem: Problem, code: str, message: str, *, device: dict, seed: int) -> dict:
    """The record of what could not be run: unreadable text (CE) or a failure of the grader (IE)."""
    verdict = refused(problem, code, message)
    return make(submission, verdict, device=device, seed=seed, wall_seconds=0.0)


def _readable(message: str) -> str:
    """Kernels by their own names: "_ZN8__main__3addB2v1..." is 200 characters that nobody wrote."""
    return re.sub(r"\b_ZN?\d\w*", lambda m: short_name(m[0]), message)


def _check(c) -> dict:
    return {
        "name": c.name,
        "title": c.title,
        "passed": c.passed,
        "message": _readable(c.message),
        "hint": c.hint,
        "points": c.points,
        "max_points": c.max_points,
    }


def _times(t: Timing | None) -> dict:
    if t is None:
        return {}
    return {
        side: {"seconds": s.seconds, "kind": t.kind, "device": t.device, "case": t.case.name, "runs": s.runs}
        for side, s in t.sides.items()
    }


def _speedup(t: Timing | None) -> dict | None:
    """Against the baseline, with its interval."""
    if t is None or not t.sides:
        return None
    return {
        "over_baseline": t.speedup,
        "interval": list(t.interval),
        "time_to_reference": t.to_reference,
        "rounds": t.rounds,
        "dropped_rounds": t.dropped,
        "ambiguous": t.ambiguous,
        "kind": t.kind,
        "device": t.device,
    }


def _findings(evidence) -> list[dict]:
    seen: dict[Finding, None] = dict.fromkeys(each.finding for each in evidence.built.early)
    seen |= dict.fromkeys(f for r in evidence.results for f in r.findings)
    return [{"tool": f.tool, "line": f.line, "file": f.file, "message": _readable(f.message)} for f in seen]


@cache
def versions() -> dict[str, str]:
    """What was used: of this package and of what its results depend on."""
    found = {}
    for name in ("cuda-camp", "numba-cuda", "numba", "numpy", "llvmlite", "cuda-bindings", "cuda-core"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "?"
    return found
