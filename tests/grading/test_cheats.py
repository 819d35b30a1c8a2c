"""What cheats, and what is only odd: every file gets the verdict in its first line, and touches nothing else.

`# expect: CODE rule`: the verdict's code, and a rule that fails. Cheats lie in tests/corpus/cheats, honest submissions
of unusual making in tests/corpus/honest. The table of verdicts is printed (pytest -s).
"""

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "sandbox"))

from test_hostile import descendants, fingerprint

import grader
from grader import batch, problems
from grader import submission as submissions
from grader.results import Store

CORPUS = Path(__file__).parents[1] / "corpus"
CHEATS, HONEST = (sorted((CORPUS / kind).glob("*.py")) for kind in ("cheats", "honest"))
ALL = [*CHEATS, *HONEST]
SEED = 20  # which sizes and numbers are drawn is no matter of luck


def expected(path: Path) -> tuple[str, str]:
    """(code, rule that must fail or "")."""
    first = re.split(r"\r\n|\r|\n", path.read_bytes().decode("utf-8-sig"), maxsplit=1)[0]
    match = re.fullmatch(r"# expect: ([A-Z]+)(?: (\w+))?", first)
    assert match, f"{path.name} does not start with '# expect: CODE rule'"
    return match[1], match[2] or ""


@pytest.fixture(scope="module")
def canary(tmp_path_factory) -> Path:
    """What no submission may read or change, though its permissions would allow it."""
    root = tmp_path_factory.mktemp("course")
    for name in ("hidden/test_all.py", "submitted/alice/grid_stride.py", "gradebook.db", "grader-results.db"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"secret of {name}")
        path.chmod(0o666)
    return root


def state(canary: Path) -> tuple[str, str]:
    """Everything that must stay as it is: the canary, and the grader itself."""
    package = Path(grader.__file__).parent
    sources = [path for path in sorted(package.rglob("*")) if "__pycache__" not in path.parts]
    return fingerprint(canary), str([(str(p), p.stat().st_size, p.stat().st_mtime_ns) for p in sources])


@dataclass(frozen=True)
class Graded:
    """All files, graded one after the other in one bench."""

    records: dict[Path, dict]
    before: tuple[str, str]  # `state`, with everything warm
    after: tuple[str, str]
    left: dict[str, set[int]]  # file -> processes that were running when it had been graded


@pytest.fixture(scope="module")
def graded(bench, canary) -> Graded:
    """Honest submissions between the cheats."""
    turns = [path for pair in zip(CHEATS, [*HONEST, *HONEST], strict=False) for path in pair]
    order = list(dict.fromkeys([*turns, *ALL]))
    first = batch.grade_one(*task(HONEST[0]), bench, Store(), 5)  # everything is compiled and warm
    assert first["code"] == "AC"
    before, running, records = state(canary), descendants(os.getpid()), {}
    left = {}
    with Store() as store:
        for path in order:
            records[path] = record = batch.grade_one(*task(path), bench, store, SEED)
            if extra := descendants(os.getpid()) - running:
                left[path.name] = extra
            code, _ = expected(path)
            print(f"{path.parent.name:7} {path.stem:32} {code:4} {record['code']:4} {record['wall_seconds']:5.2f} s"
                  f"  {record['message'][:100]}")  # fmt: skip
    return Graded(records, before, state(canary), left)


def task(path: Path):
    """(submission, problem)."""
    found = submissions.read(str(path))
    (exercise,) = found.exercises
    return found, problems.get(exercise)


@pytest.mark.parametrize("path", ALL, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_a_submission_gets_the_verdict_in_its_first_line(graded, path):
    code, rule = expected(path)
    record = graded.records[path]
    failed = [c["name"] for c in record["checks"] if c["passed"] is False]
    assert record["code"] == code, (record["message"], record["failed_cells"], record["output"][-500:])
    assert not rule or rule in failed
    if path in CHEATS:
        assert record["points"] < record["max_points"]


LIVE = [p for p in ALL if p.stem.startswith("live_") and expected(p)[0] != "RTE"]


@pytest.mark.parametrize("path", LIVE, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_what_was_graded_live_is_held_for_review(graded, path):
    record = graded.records[path]
    assert record["flags"][0].startswith("held for review: graded live, because ")
    (first,) = [c for c in record["checks"] if c["name"] == "compiles"]
    assert "Graded live: what " in first["message"]


def test_what_is_replayed_is_not(graded):
    said = [
        p.name for p, r in graded.records.items() if p not in LIVE and any("graded live" in flag for flag in r["flags"])
    ]
    assert said == []


def test_nothing_was_touched_and_nothing_is_left(graded):
    assert graded.after == graded.before
    assert not graded.left
    assert not Path("/tmp/graded-by-a-pickle").exists()
    assert not any("secret of" in str(record) for record in graded.records.values())


def test_a_cheat_does_not_change_what_the_next_submission_gets(graded):
    timed = [r for r in graded.records.values() if r["exercise"] == "00_grid_stride" and r["speedup"]]
    assert len({r["times"]["baseline"]["seconds"] for r in timed}) == 1
    alike = [graded.records[p] for p in HONEST if p.stem in ("helper_function", "tabs", "windows", "closure")]
    assert len({r["times"]["submission"]["seconds"] for r in alike}) == 1


def test_the_corpora_are_as_large_as_is_promised():
    assert len(CHEATS) >= 45 and len(HONEST) >= 25
    assert [sum(p in LIVE for p in kind) for kind in (CHEATS, HONEST)] == [10, 7]
    assert {expected(p)[0] for p in CHEATS} >= {"WA", "SV", "CE", "RTE", "TLE", "SLOW"}
    assert {expected(p)[0] for p in HONEST} <= {"AC", "CE", "SLOW"}
    assert sum(expected(p)[0] == "AC" for p in HONEST) >= 25
