"""Each rule, on evidence made by hand; and the verdict that follows."""

from dataclasses import replace

import numpy as np
import pytest

from grader import problems, rules
from grader.evidence import BuildError, Built, CaseRun, Evidence, Fault, Finding, RunResult, Side, Timing
from grader.problems.model import Case, Tolerance
from grader.program import Buffer, Launch, Program
from grader.rules.check import Rule, failed, judge, passed
from grader.rules.compare import AT_A_TIME, KINDS, compare
from grader.rules.speed import duration, goals, share
from grader.verdict import CODES, decide

PROBLEM = problems.get("02_transpose")
CASE = Case({"rows": 6, "cols": 40})
PTX = b".version 8.0\n"


def program(grid=(2, 1, 1), block=(32, 8, 1), copies=1) -> Program:
    buffers = [
        Buffer(960, "device", "input", "a", "<f4", (6, 40)),
        Buffer(960, "device", "output", "out", "<f4", (40, 6)),
    ]
    return Program.make(buffers, [PTX], [Launch(0, "k", grid, block, 0, b"")] * copies)


def inputs():
    return PROBLEM.inputs(np.random.default_rng(3), CASE.sizes)


def evidence(output=None, timing=None, prog=None, **result) -> Evidence:
    """A right answer, changed as told."""
    given = inputs()
    right = given["a"].T.copy() if output is None else output
    base = RunResult("NVIDIA A100", "modelled", {"out": right}, 1e-5, sanitized=True)
    runs = (replace(base, **result), replace(base, sanitized=False, poison=0x5A))
    run = CaseRun(CASE, given, PROBLEM.reference(given, CASE.sizes), runs)
    return Evidence(PROBLEM, Built({CASE.name: prog or program()}), (run,), timing or timed())


COUNTERS = {
    "global_load_requests": 100,
    "global_load_sectors": 400,
    "global_store_requests": 100,
    "global_store_sectors": 400,
    "shared_requests": 200,
    "shared_wavefronts": 200,
    "shared_ideal_wavefronts": 200,
}


# A hundred times as many loads as needed, of which few are far away from each other.
MANY_FOR_SHOW = {"global_load_requests": 10_000, "global_load_sectors": 40_000}


def timed(speedup=4.0, to_reference=1.0, spread=0.0, **counters) -> Timing:
    sides = {
        "submission": Side(1e-5, COUNTERS | counters, 1),
        "baseline": Side(speedup * 1e-5, COUNTERS, 1),
        "reference": Side(1e-5 / to_reference, COUNTERS, 1),
    }
    span = speedup - spread, speedup + spread
    reached = speedup >= goals(speedup * to_reference, PROBLEM.speed.bar)
    more = {"fast": bool(reached[0]), "share": float(share(reached)), "ambiguous": spread > 0}
    return Timing("NVIDIA A100", "modelled", CASE, sides, speedup, span, to_reference, 1, **more)


def checks(e: Evidence) -> dict:
    return {c.name: c for c in decide(e).checks}


def test_a_right_and_fast_answer_gets_everything():
    verdict = decide(evidence())
    assert (verdict.code, verdict.points) == ("AC", verdict.max_points)
    assert all(c.passed is True and not c.hint for c in verdict.checks)
    assert "modelled" in verdict.message and "you 10 us" in verdict.message


BROKEN = {
    "SV": evidence(prog=program(copies=2)),
    "TLE": evidence(fault=Fault("timeout", "thread 0 never ends", 7, "submission.py")),
    "MLE": evidence(fault=Fault("memory", "too much")),
    "IE": evidence(fault=Fault("infrastructure", "lost")),
    "RTE": evidence(findings=(Finding("racecheck", "thread 1 and thread 2", 9),)),
    "WA": evidence(output=np.zeros((40, 6), np.float32)),
    "SLOW": evidence(timing=timed(speedup=1.1)),
    "AC": evidence(),
}


@pytest.mark.parametrize("code", BROKEN)
def test_every_kind_of_failure_has_its_code(code):
    assert decide(BROKEN[code]).code == code


@pytest.mark.parametrize("code", ["IE", "SV", "CE", "TLE", "MLE", "OLE", "RTE"])
def test_a_submission_that_did_not_build_has_the_code_of_what_stopped_it(code):
    verdict = decide(Evidence(PROBLEM, Built(error=BuildError(code, "so it was"))))
    assert (verdict.code, verdict.points, verdict.message) == (code, 0.0, "so it was")
    assert all(c.passed == "skipped" for c in verdict.checks if c.name not in ("compiles", "fast_enough"))


def test_the_strongest_code_wins():
    race = (Finding("racecheck", "x", 1),)
    worst = evidence(output=np.zeros((40, 6), np.float32), findings=race, prog=program(grid=(9, 1, 1)))
    assert decide(worst).code == "SV"
    assert CODES == ("IE", "SV", "CE", "TLE", "MLE", "OLE", "RTE", "WA", "SLOW", "AC")


def test_a_fault_of_the_grader_in_a_rule_is_its_own_code_and_costs_the_rule_nothing():
    def broken(e):
        """Cannot be."""
        raise KeyError("oops")

    (check,) = judge([Rule(broken, 5, pays_with=())], evidence())
    assert (check.passed, check.code, check.points) == (None, "IE", 5)
    assert "oops" in check.message


def test_a_rule_that_needs_a_failed_one_is_skipped_and_pays_nothing():
    def first(e):
        """First."""
        return failed("no")

    def second(e):
        """Second."""
        return passed("yes")

    one, two = judge([Rule(first, 1), Rule(second, 1, needs=("first",))], evidence())
    assert (one.passed, two.passed, two.points) == (False, "skipped", 0)
    assert two.message == 'not checked, because "First" did not pass'


def test_points_that_another_rule_holds_back_are_said_to_be():
    def first(e):
        """First."""
        return failed("no")

    def second(e):
        """Second."""
        return passed("yes")

    def third(e):
        """Third."""
        return passed("so")

    rubric = [Rule(first, 1), Rule(second, 2, pays_with=("first",)), Rule(third, 0, pays_with=("first",))]
    one, two, three = judge(rubric, evidence())
    assert (one.message, one.points) == ("no", 0)
    assert (two.passed, two.points, two.message) == (True, 0, 'yes; no points, because "First" did not pass')
    assert three.message == "so"  # it pays nothing anyhow


def test_clean_but_wrong_pays_nothing():
    assert decide(BROKEN["WA"]).points == 0


def test_right_but_racing_pays_for_the_values_only():
    verdict = decide(BROKEN["RTE"])
    by_name = {c.name: c for c in verdict.checks}
    assert by_name["right_values"].passed is True and by_name["right_values"].points > 0
    assert by_name["fast_enough"].passed == "skipped"
    assert 0 < verdict.points < verdict.max_points / 2


@pytest.mark.parametrize(
    ("rule", "change", "words"),
    [
        ("in_bounds", {"findings": (Finding("memcheck", "index 40 of 40", 3, "cell 2"),)}, "cell 2, line 3"),
        ("in_bounds", {"fault": Fault("illegal_address", "address 0x10", 3)}, "line 3"),
        ("in_bounds", {"overrun": ("out",)}, "next to out"),
        ("initialised", {"findings": (Finding("initcheck", "thread 1 reads tile[3]", 4),)}, "line 4"),
        ("barriers_met", {"findings": (Finding("synccheck", "thread 9 is missing", 5),)}, "line 5"),
        ("race_free", {"findings": (Finding("racecheck", "a", 5), Finding("racecheck", "b", 6))}, "1 more"),
        ("inputs_kept", {"changed": ("a",)}, "its input a"),
        ("finishes", {"fault": Fault("trap", "assert failed", 2)}, "line 2"),
        ("repeatable", {"outputs": {"out": inputs()["a"].T * np.float32(1)}}, ""),
    ],
)
def test_rules_name_what_they_saw(rule, change, words):
    check = checks(evidence(**change))[rule]
    if rule == "repeatable":
        assert check.passed is True
        return
    assert check.passed is False
    assert words in check.message and CASE.name in check.message


def test_a_race_between_two_runs_shows():
    e = evidence()
    first, second = e.runs[0].results
    other = np.nextafter(first.outputs["out"], np.float32(9))
    run = replace(e.runs[0], results=(first, replace(second, outputs={"out": other})))
    assert rules.correctness.repeatable(replace(e, runs=(run,))).passed is False


def test_sanitizers_that_did_not_run_are_unknown_not_passed():
    e = evidence(sanitized=False)
    assert checks(e)["race_free"].passed is None


@pytest.mark.parametrize(
    ("rule", "counters", "ok"),
    [
        ("coalesced", {}, True),
        ("coalesced", {"global_store_sectors": 3200}, False),
        ("coalesced", {"global_atomic_requests": 10, "global_atomic_sectors": 320}, False),
        ("coalesced", MANY_FOR_SHOW | {"global_load_ideal_sectors": 40_000}, True),
        ("coalesced", MANY_FOR_SHOW | {"global_load_ideal_sectors": 36_000}, False),
        ("no_bank_conflicts", {"shared_wavefronts": 6400}, False),
        ("no_bank_conflicts", {"shared_requests": 0}, False),
    ],
)
def test_counters_decide_structure(rule, counters, ok):
    check = checks(evidence(timing=timed(**counters)))[rule]
    assert check.passed is ok
    assert bool(check.hint) is not ok
    assert decide(evidence(timing=timed(**counters))).code == "AC"


def test_a_device_that_does_not_count_costs_nothing():
    t = timed()
    t = replace(t, sides={k: replace(s, counters={}) for k, s in t.sides.items()})
    assert checks(evidence(timing=t))["coalesced"].passed is None
    assert decide(evidence(timing=t)).points == PROBLEM.max_points


def test_marks_rise_in_steps_from_the_baseline_to_the_reference():
    limits = goals(6.0, 1.5)  # 1.2 times the reference's time is 5 x
    assert limits == pytest.approx([1.5, 2, 3, 4, 5])
    shares = [float(share(r >= limits)) for r in (0.5, 1.0, 1.9, 2.0, 3.0, 4.9, 5.0, 9.0)]
    assert shares == [0, 0, 0, 0.25, 0.5, 0.75, 1, 1]


def test_limits_follow_the_reference_round_by_round():
    assert goals([6.0, 3.6], 1.5).shape == (2, 5)
    assert goals([6.0, 3.6], 1.5)[:, 4] == pytest.approx([5, 3])


def test_an_ambiguous_time_says_so_and_takes_nothing():
    check = checks(evidence(timing=timed(spread=0.1)))["fast_enough"]
    assert check.passed is True and "decided in your favour" in check.message


def test_a_time_that_is_not_believed_is_nobodys_mark():
    t = replace(timed(), doubt="1 s is less than 2 s")
    verdict = decide(evidence(timing=t))
    assert (verdict.code, verdict.points) == ("IE", 0)
    assert "1 s is less than 2 s" in verdict.message


def array(*values):
    return np.array(values, np.float32)


RIGHT = {"n": np.arange(1, 101, dtype=np.float64)}


def spoiled(kind):
    out = RIGHT["n"].astype(np.float32)
    match kind:
        case "unwritten":
            out.view(np.uint8)[:] = 0xCB
        case "tail":
            out[96:] = 0
        case "hole":
            out[10:20].view(np.uint8)[:] = 0xCB
        case "shifted":
            out[:] = np.roll(out, 1)
        case "copied":
            out[:] = -RIGHT["n"]
        case "overflow":
            out[5] = np.inf
        case "precision":
            out[:] = (out * np.float32(1.0003)).astype(np.float32)
        case "scaled":
            out[:] *= 3
        case "edge":
            out[[0, -1]] = 7
        case "values":
            out[[3, 50, 77]] = (1, 2, 99)
    return {"n": out}


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "transposed"])
def test_the_kind_of_mistake_is_named(kind):
    got = compare(RIGHT, spoiled(kind), PROBLEM.tolerance, {"x": -RIGHT["n"]}, 0xCB)
    assert got.kind == kind
    assert got.sentence().startswith(f"n[{got.index[0]}] should be ")


def test_a_transposed_result_is_named():
    want = np.arange(12.0).reshape(3, 4) + 1
    got = compare({"m": want}, {"m": want.T.reshape(3, 4).copy()}, PROBLEM.tolerance, {}, 0xCB)
    assert got.kind == "transposed"


@pytest.mark.parametrize("shape", [(), (1,), (3 * AT_A_TIME + 5,), (3, AT_A_TIME + 1), (AT_A_TIME + 7, 2), (2, 3, 5)])
def test_every_element_is_compared(shape):
    want = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
    assert compare({"y": want}, {"y": want.astype("f4")}, Tolerance(), {}, 0xCB) is None
    size = want.size
    for at in {0, size // 2, min(AT_A_TIME, size) - 1, min(AT_A_TIME, size - 1), size - 1}:
        got = want.astype("f4")
        got.flat[at] *= np.float32(1.00001)
        scale = Tolerance(2e-5, scale=lambda inputs: {"y": np.full(shape, 2.0)})
        difference = compare({"y": want}, {"y": got}, Tolerance(), {}, 0xCB)
        assert (difference.index, difference.wrong) == (np.unravel_index(at, shape), 1)
        assert (compare({"y": want}, {"y": got}, scale, {}, 0xCB) is None) == (want.flat[at] <= 4.0)


def test_an_empty_output_has_nothing_wrong():
    assert compare({"y": np.zeros(0)}, {"y": np.zeros(0, "f4")}, Tolerance(), {}, 0xCB) is None


def test_durations_read_well():
    assert [duration(s) for s in (2, 0.0123, 1.21e-5, 5e-9)] == ["2 s", "12.3 ms", "12.1 us", "5 ns"]
