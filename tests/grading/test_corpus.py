"""Real submissions, graded for real: each gets the verdict it deserves, for its own reason."""

import tomllib
from pathlib import Path

import pytest

from grader import batch, course, problems
from grader import submission as submissions
from grader.results import Store

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "tests" / "corpus" / "submissions"
EXPECTED = tomllib.loads((SAMPLES / "expected.toml").read_text())["code"]
SEED = (
    20  # which sizes and numbers are drawn is no matter of luck here; `grader check-course` draws new ones every time
)
CLAIMS = [c for c in course.claims(ROOT) if isinstance(c, course.Claim) and "/exercises/" not in c.submission.path]


@pytest.fixture(scope="module")
def store():
    with Store() as found:
        yield found


def test_every_sample_is_listed_and_every_listed_one_is_there():
    assert {p.name for p in SAMPLES.iterdir() if p.suffix in (".py", ".ipynb")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_sample_gets_its_verdict(bench, store, name):
    found = submissions.read(str(SAMPLES / name))
    (exercise,) = found.exercises
    record = batch.grade_one(found, problems.get(exercise), bench, store, SEED)
    assert record["code"] == EXPECTED[name], (record["message"], record["output"])


def test_a_race_is_found_though_the_values_are_right(bench, store):
    found = submissions.read(str(SAMPLES / "mend_georg.py"))
    record = batch.grade_one(found, problems.get("mend"), bench, store, SEED)
    checks = {c["name"]: c["passed"] for c in record["checks"]}
    assert (checks["right_values"], checks["race_free"]) == (True, False)
    (finding, *_) = record["findings"]
    assert (finding["tool"], finding["line"]) == ("racecheck", 19)
    assert "thread" in finding["message"] and "line 14" in finding["message"]


@pytest.mark.parametrize("exercise", ["06_overlap", "08_graph"])
def test_values_that_are_not_there_at_the_return_earn_nothing(bench, store, exercise):
    wrong = ROOT / "tests" / "corpus" / "wrong" / exercise / "no_wait_at_the_end.py"
    record = batch.grade_one(submissions.read(str(wrong)), problems.get(exercise), bench, store, SEED)
    checks = {c["name"]: c for c in record["checks"]}
    assert (checks["right_values"]["passed"], checks["waits_for_results"]["passed"]) == (True, False)
    assert (checks["right_values"]["points"], record["points"]) == (0, 0)


def test_broken_cells_are_named_and_do_not_matter(bench, store):
    found = submissions.read(str(SAMPLES / "homework-2-lena.ipynb"))
    record = batch.grade_one(found, problems.get("02_matmul"), bench, store, SEED)
    assert [c.split(":")[0] for c in record["failed_cells"]] == ["cell 2", "cell 6", "cell 7"]


def test_what_a_submission_prints_is_shown_and_counts_for_nothing(bench, store):
    found = submissions.read(str(SAMPLES / "grid_stride_emre.py"))
    record = batch.grade_one(found, problems.get("grid_stride"), bench, store, SEED)
    assert "10 / 10 points" in record["output"]
    assert record["points"] == 0


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda c: f"{c.problem.name}-{c.what}".replace(" ", "_"))
def test_the_course_proves_itself(bench, store, claim):
    record = batch.grade_one(claim.submission, claim.problem, bench, store, SEED)
    assert course._broken(claim, record) == ""


def test_the_same_seed_gives_the_same_record(bench):
    found = submissions.read(str(SAMPLES / "transpose_hana.py"))
    with Store() as one, Store() as two:
        first, second = (batch.grade_one(found, problems.get("transpose"), bench, s, 11) for s in (one, two))
    assert first | {"wall_seconds": 0} == second | {"wall_seconds": 0}
