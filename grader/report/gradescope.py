"""Records as the `results.json` that a Gradescope autograder leaves behind.

https://gradescope-autograders.readthedocs.io/en/latest/specs/#output-format
"""

from collections.abc import Sequence

from grader.report.html import fragment

_STATUS = {True: "passed", False: "failed"}


def results(records: Sequence[dict]) -> dict:
    """One test a rule; ranked by speed-up. ValueError if the grader failed on one: no mark is better than a 0."""
    failed = [r for r in records if r["code"] == "IE"]
    if failed or not records:
        said = "; ".join(f"{r['exercise']}: {r['message']}" for r in failed) or "nothing was graded"
        raise ValueError(f"no results for Gradescope: {said}")
    return {
        "score": sum(r["points"] for r in records),
        "execution_time": round(sum(r["wall_seconds"] for r in records), 3),
        "output": "".join(fragment(r) for r in records),
        "output_format": "html",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": [_test(r, c) for r in records for c in r["checks"]],
        "leaderboard": [
            {"name": f"{r['exercise']} speed-up", "value": round(r["speedup"]["over_baseline"], 3), "order": "desc"}
            for r in records
            if r["speedup"]
        ],
        "extra_data": {r["exercise"]: {k: r[k] for k in ("code", "device", "seed", "versions")} for r in records},
    }


def _test(record: dict, check: dict) -> dict:
    said = check["message"] + (f"\nHint: {check['hint']}" if check["hint"] else "")
    test = {
        "name": f"{record['exercise']}: {check['title']}",
        "score": check["points"],
        "max_score": check["max_points"],
        "output": said,
        "output_format": "text",
        "visibility": "visible",
    }
    status = _STATUS.get(check["passed"])
    return test | ({"status": status} if status else {})
