"""The timing protocol against a device whose noise is known."""

from dataclasses import replace

import noise
import numpy as np
import pytest
from noise import BAR, EDGES, REFERENCE, gradings, rough, times

from grader import measure, problems
from grader.devices import Run
from grader.evidence import Built, CardState, Evidence, Fault, RunResult, Side
from grader.measure import Policy, guard, sizing
from grader.measure.rounds import Rounds, orders
from grader.measure.statistics import ERROR, allowed, interval, overall_error, ratio, votes
from grader.problems.model import Array, Case
from grader.program import Buffer, Program
from grader.rules.speed import fast_enough

PROBLEM = problems.get("00_grid_stride")
CASE = Case({"n": 64})
BUFFERS = [Buffer(256, "device", "input", "x", "<f4", (64,)), Buffer(256, "device", "output", "y", "<f4", (64,))]
SIDES = {side: Program.make(BUFFERS, [f".version {i}".encode()], []) for i, side in enumerate(("s", "b", "r"))}
PROGRAMS = {"submission": SIDES["s"], "baseline": SIDES["b"], "reference": SIDES["r"]}
POLICY = Policy(warm_calls=2, warm_seconds=0.0)


class Fake:
    """A GPU that takes as long as it is told, times a noise."""

    kind, spec, sanitizes = "measured", "cuda:0", False

    def __init__(self, noise=lambda call: 1.0, spoil=None, **seconds):
        self.seconds = {"submission": 1.0, "baseline": 2.0, "reference": 0.8} | seconds
        self.noise, self.spoil = noise, spoil
        self.calls: list[tuple[str, Run]] = []

    def describe(self):
        return {"name": "Fake", "kind": self.kind, "spec": self.spec}

    def replay(self, runs):
        out = []
        for run in runs:
            side = next(s for s, p in PROGRAMS.items() if p is run.program)
            x = run.inputs["x"]
            y = x * x + np.float32(1)
            seconds = self.seconds[side] * self.noise(len(self.calls))
            self.calls.append((side, run))
            result = RunResult("Fake", "measured", {"y": y}, seconds, poison=run.poison)
            out.append(self.spoil(side, len(self.calls), result) if self.spoil else result)
            if out[-1].fault:
                break
        return out


def timing(device, seed=0, policy=POLICY, now=lambda: 0.0, **more):
    """The clock of the protocol stands still where a test does not say otherwise: a busy machine ends no timing."""
    rng = np.random.default_rng(seed)
    return measure.compare_sides(device, PROGRAMS, PROBLEM, CASE, rng, policy, now=now, **more)


def test_a_quiet_device_needs_the_least_rounds_and_gives_exact_ratios():
    t = timing(Fake())
    assert (t.rounds, t.speedup, t.to_reference, t.ambiguous, t.flags) == (13, 2.0, 1.25, False, ())
    assert t.sides["submission"] == Side(1.0, {}, 39)


def test_drift_cancels_within_rounds():
    t = timing(Fake(noise=lambda call: 1.0 + call / 500))
    assert t.speedup == pytest.approx(2.0, rel=0.03)


def test_spikes_do_not_move_the_median():
    rng = np.random.default_rng(5)
    t = timing(Fake(noise=lambda call: 10.0 if rng.random() < 0.1 else 1.0))
    assert t.speedup == pytest.approx(2.0, rel=0.01)


def test_heavy_noise_at_a_mark_takes_all_rounds_and_is_decided_for_the_student():
    rng = np.random.default_rng(6)
    policy = replace(POLICY, most_rounds=101)
    t = timing(Fake(lambda call: rng.lognormal(0, 0.5), baseline=PROBLEM.speed.bar, reference=0.4), policy=policy)
    assert (t.rounds, t.ambiguous, t.fast) == (101, True, True)
    assert t.flags[0].startswith("ambiguous")
    assert t.interval[0] < PROBLEM.speed.bar < t.interval[1]


def test_time_is_limited_but_not_below_the_least_rounds():
    clock = iter(range(0, 100_000, 100))
    rng = np.random.default_rng(6)
    t = timing(Fake(noise=lambda call: rng.lognormal(0, 0.5)), now=lambda: next(clock))
    assert t.rounds == 13


def test_sides_take_turns_in_random_order_on_content_that_never_comes_back():
    device = Fake()
    timing(device)
    timed = [(side, run) for side, run in device.calls if run.timed]
    rounds = [[side for side, _ in timed[i : i + 9]] for i in range(0, len(timed), 9)]
    assert len({tuple(r) for r in rounds}) > 3
    for sides in rounds:  # everybody once in every place
        assert all(len(set(sides[place::3])) == 3 == len(set(sides[3 * place : 3 * place + 3])) for place in range(3))
    own = [run.inputs["x"].tobytes() for side, run in timed if side == "submission"]
    assert len(set(own)) == len(own) == 39
    assert len({run.poison for _, run in timed}) > 1


def test_times_are_kept_by_the_place_of_a_run_in_its_repeat():
    by_place = (1.08, 1.03, 1.0)
    rounds = Rounds(Fake(lambda call: by_place[call % 3]), PROGRAMS, PROBLEM, CASE, np.random.default_rng(3), {}, 3, 0)
    rounds.next()
    rounds.next()
    for side, seconds in {"submission": 1.0, "baseline": 2.0, "reference": 0.8}.items():
        assert rounds.times(side) == pytest.approx(seconds * np.array([by_place] * 2))


def test_a_side_alone_comes_as_often_as_repeats_are_asked_for():
    assert orders(np.random.default_rng(0), ["submission"], 3) == [["submission"]] * 3


def test_the_first_runs_are_not_timed():
    device = Fake()
    timing(device)
    assert [run.timed for _, run in device.calls[:7]] == [False] * 6 + [True]


def test_one_wrong_element_in_one_timed_run_is_seen():
    def spoil(side, call, result):
        if side == "submission" and call > 60:
            result.outputs["y"][7] += 1
        return result

    t = timing(Fake(spoil=spoil))
    assert "y[7] should be" in t.wrong and not t.sides


def test_a_fault_ends_the_timing():
    def spoil(side, call, result):
        return RunResult("Fake", "measured", fault=Fault("timeout", "x")) if side == "submission" else result

    assert timing(Fake(spoil=spoil)).fault.kind == "timeout"


def test_a_broken_baseline_is_the_graders_fault():
    def spoil(side, call, result):
        return RunResult("Fake", "measured", fault=Fault("timeout", "x")) if side == "baseline" else result

    with pytest.raises(RuntimeError, match="baseline"):
        timing(Fake(spoil=spoil))


def test_known_sides_are_not_run_again():
    device = Fake()
    known = {"baseline": Side(2.0, {}, 1), "reference": Side(0.8, {}, 1)}
    t = timing(device, policy=measure.MODELLED, known=known)
    assert [s for s, _ in device.calls] == ["submission"]
    assert (t.rounds, t.speedup, t.interval) == (1, 2.0, (2.0, 2.0))


def test_where_a_recording_holds_for_certain_inputs_these_take_turns_and_all_sides_get_them():
    takes = [({"x": np.full(64, k, "f4")}, Program.make(BUFFERS, [b".version 9"], [])) for k in (3, 5)]
    own = {id(program): inputs for inputs, program in takes}

    class Live(Fake):
        def replay(self, runs):
            asked.extend(runs)
            plain = [replace(r, program=SIDES["s"] if id(r.program) in own else r.program) for r in runs]
            return super().replay(plain)

    asked: list[Run] = []
    t = timing(Live(), takes=takes)
    assert (t.rounds, t.speedup) == (13, 2.0)
    assert {id(r.program) for r in asked} == {id(p) for p in (takes[0][1], takes[1][1], SIDES["b"], SIDES["r"])}
    assert all(r.inputs is own[id(r.program)] for r in asked if id(r.program) in own)
    given = [r.inputs["x"][0] for r in asked if r.timed and r.program is SIDES["b"]]
    assert len(given) == 39 and 19 <= given.count(3) <= 20


# ---- how sure


@pytest.mark.parametrize("n", [5, 12, 13, 41])
def test_the_bootstrap_interval_is_that_of_resampling(n):
    rng = np.random.default_rng(n)
    data = rng.lognormal(0, 0.3, n)
    resampled = np.sort(data[rng.integers(0, n, (20_000, n))], axis=1)
    low, high = interval(data)
    assert low == np.quantile(resampled[:, (n - 1) // 2], 0.025, method="inverted_cdf")
    assert high == pytest.approx(np.quantile(resampled[:, n // 2], 0.975), abs=np.ptp(data) / n)


def test_one_value_is_its_own_interval():
    assert interval([2.5]) == (2.5, 2.5)


def test_a_vote_needs_more_rounds_than_can_agree_by_chance():
    assert [allowed(n) for n in (11, 12, 13, 21, 41, 151, 1001)] == [-1, -1, 0, 1, 7, 49, 426]
    assert ERROR / 12 < 0.5**12 and ERROR / 13 > 0.5**13


def test_voting_again_and_again_is_wrong_in_less_than_one_of_a_thousand():
    assert overall_error(measure.MEASURED.looks) == pytest.approx(3.07e-4, abs=1e-6)


def test_votes_are_per_row():
    rows = np.array([[1.1] * 13, [0.9] * 13, [1.1] * 6 + [0.9] * 7])
    above, below = votes(rows)
    assert (above.tolist(), below.tolist()) == ([True, False, False], [False, True, False])


def test_the_estimate_compares_runs_of_one_round_and_place():
    rng = np.random.default_rng(31)
    round_and_place = rng.lognormal(0, 1, (13, 3))  # whatever the card does to all sides alike
    assert ratio(3.0 * round_and_place, round_and_place) == pytest.approx((3.0, 0.0))


def test_a_quarter_of_the_runs_on_either_side_does_not_move_the_estimate():
    a, b = np.full((20, 3), 1.5), np.ones((20, 3))
    a[:5], b[5:10] = 1e6, 1e6
    assert ratio(a, b)[0] == pytest.approx(1.5)
    a[5:7] = 1e6
    b[5:7] = 1.0
    assert ratio(a, b)[0] > 1.6


@pytest.mark.parametrize(
    ("noise", "per_cent"),
    [(noise.quiet, 0.47), (noise.drift, 0.47), (noise.spikes, 0.57), (noise.bimodal, 0.56), (noise.order, 0.47)],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_the_estimate_has_no_bias_and_a_known_error(noise, per_cent):
    baseline, own, _ = times(np.random.default_rng(32), noise, np.full(500, 2.0), 101)
    estimate, claimed = ratio(baseline, own)
    error = 100 * np.log(estimate / 2.0)
    assert error.std() * 101**0.5 == pytest.approx(per_cent, rel=0.12)  # of one round; four standard errors are 12 %
    assert 100 * claimed.mean() == pytest.approx(error.std(), rel=0.15)
    assert abs(error.mean()) < 4 * per_cent / (500 * 101) ** 0.5


# ---- marks under noise

ASKED = (noise.quiet, noise.drift, noise.spikes, noise.bimodal, noise.order)
EDGE = 1 - measure.MEASURED.close  # times a limit: where the mark changes


def decision_at(speedup):
    """Of rounds without any noise."""
    sides = (np.full((13, 3), seconds) for seconds in (1.0, 1 / speedup, 1 / REFERENCE))
    return measure.decide(*sides, BAR, measure.MEASURED.close)


def test_a_goal_is_missed_below_its_edge_and_flagged_between_edge_and_goal():
    goal = EDGES["2/4 of the points"]  # the bar, the first and the second step
    clear, flagged, missed = (decision_at(goal * (1 + off)) for off in (0.0001, -0.0024, -0.0026))
    assert clear.reached.tolist() == flagged.reached.tolist() == [True, True, True, False, False]
    assert missed.reached.tolist() == [True, True, False, False, False]
    assert (clear.open.any(), flagged.open.tolist(), missed.open.any()) == (
        False,
        [False, False, True, False, False],
        False,
    )
    assert clear.done and flagged.done and missed.done


def test_at_a_limit_wrong_marks_are_rare_whatever_the_noise():
    slow, unflagged = [], []
    for make, count in (*((n, 500) for n in ASKED), (rough, 10)):
        for limit, points in ((BAR, 0.0), (EDGES["2/4 of the points"], 0.5)):
            got, bar, open_, _ = gradings(np.random.default_rng(20), make, limit, count)
            slow.append(~bar | (got < points))
            unflagged.append(~open_)
    assert np.concatenate(slow).mean() < 1e-3  # just as fast as is asked, and said to be slow
    assert np.concatenate(unflagged).mean() < 1e-3  # a hair slower than is asked, and said to be fast without a flag


@pytest.mark.parametrize("off", [-0.005, -0.01, -0.03])
@pytest.mark.parametrize("noise", ASKED, ids=lambda n: n.__name__)
def test_half_a_per_cent_below_a_limit_the_mark_is_not_given(noise, off):
    points, _, open_, _ = gradings(np.random.default_rng(21), noise, EDGES["2/4 of the points"] * (1 + off), 600)
    assert (points != 0.25).sum() + open_.sum() <= 1


@pytest.mark.parametrize("noise", ASKED, ids=lambda n: n.__name__)
def test_the_same_code_graded_twice_gets_the_same_mark_in_999_of_1000(noise):
    rng, pairs, near = np.random.default_rng(23), 300, 0.001
    goal = EDGES["2/4 of the points"]
    speedup = goal * EDGE * np.exp(rng.uniform(-near, near, pairs))  # further off it is certain, see below
    (first, *_), (second, *_) = (gradings(rng, noise, speedup, pairs) for _ in "12")
    so_near = len(EDGES) * 2 * near / np.log(3.5 / 0.8)  # of a class with speed-ups from 0.8 to 3.5
    assert 0 < np.mean(first != second) * so_near < 1e-3
    for side, points in ((-near, 0.25), (near, 0.5)):
        assert (gradings(rng, noise, goal * EDGE * np.exp(side), 50)[0] == points).all()


@pytest.mark.parametrize("noise", ASKED, ids=lambda n: n.__name__)
def test_with_time_for_the_least_rounds_only_no_mark_is_far_off(noise):
    goal, least = EDGES["2/4 of the points"], measure.MEASURED.least_rounds
    for off, right in ((-0.05, 0.25), (0.05, 0.5)):
        points, _, open_, _ = gradings(np.random.default_rng(24), noise, goal * (1 + off), 500, least)
        assert np.mean(points != right) < 0.03  # those whose few rounds happen to be bad ones
        assert not ((points != right) & ~open_).any()
        assert open_.mean() < 0.04
    assert (gradings(np.random.default_rng(25), noise, goal, 500, least)[0] >= 0.5).all()  # just reached: given


def test_noise_of_ones_own_making_buys_one_step_at_most():
    rng = np.random.default_rng(22)
    baseline, reference = np.ones((200, 41, 1)), np.full((200, 41, 1), 1 / REFERENCE)
    own = 1 / (1.1 * np.exp(rng.normal(0, 1.0, (200, 41, 1))))  # 1.1 x the baseline's speed, give or take a factor of 3
    decision = measure.decide(baseline, own, reference, BAR, 0.02)
    by_estimate = (ratio(baseline, own)[0][:, None] >= 0.98 * np.array(list(EDGES.values()))).sum(axis=1)
    assert (decision.reached.sum(axis=1) <= by_estimate + 1).all()
    assert decision.open.any()


# ---- what speaks against a time


class Watched(Fake):
    """Tells of itself: `tell(side, call) -> (host seconds beyond the events', CardState)`."""

    def __init__(self, tell, **more):
        super().__init__(**more)
        self.tell = tell

    def replay(self, runs):
        before, out = len(self.calls), super().replay(runs)
        told = [self.tell(side, before + i) for i, (side, _) in enumerate(self.calls[before:])]
        return [
            replace(r, host_seconds=r.seconds + beyond, card=card) for r, (beyond, card) in zip(out, told, strict=True)
        ]


WELL = CardState(1980, 50)


def test_work_that_escapes_the_events_does_not_escape_the_hosts_clock():
    t = timing(Watched(lambda side, call: (0.3 if side == "submission" else 0.01, WELL)))
    assert len(t.flags) == 1 and "the host's clock sees 290000 us" in t.flags[0]
    assert timing(Watched(lambda side, call: (0.01, WELL))).flags == ()


def test_rounds_in_which_the_clock_changed_do_not_count():
    t = timing(Watched(lambda side, call: (0, CardState(1200 if call == 20 else 1980, 50))))
    assert (t.rounds, t.dropped) == (13, 1)
    assert "1 rounds were left out" in t.flags[0]


def test_no_more_rounds_are_dropped_than_are_allowed():
    t = timing(Watched(lambda side, call: (0, CardState(1200 if call % 9 == 0 else 1980, 50))))
    assert (t.rounds, t.dropped) == (13, POLICY.most_dropped)


def test_a_slowed_card_and_strangers_are_told():
    state = CardState(1980, 88, slowed=("heat", "power"), strangers=2)
    t = timing(Watched(lambda side, call: (0, state)))
    assert t.flags == (
        "the card was slowed down (heat) in 117 of 117 timed runs",
        "the card was slowed down (power) in 117 of 117 timed runs",
        "2 other processes had the card open while it was timed",
    )


def test_a_submission_whose_own_times_scatter_is_flagged():
    rng = np.random.default_rng(1)

    class Erratic(Fake):
        def replay(self, runs):
            return [
                replace(r, seconds=r.seconds * (1 + rng.random() if run.program is SIDES["s"] else 1.0))
                for r, run in zip(super().replay(runs), runs, strict=True)
            ]

    assert any("own times scatter" in f for f in timing(Erratic()).flags)


def test_a_time_below_what_the_card_can_do_is_not_believed():
    more = Array("work", lambda s: (s["n"] * 100,), "scratch")
    scratch = replace(PROBLEM, entry=replace(PROBLEM.entry, params=(*PROBLEM.entry.params, more)))
    card = {"memory_bytes_per_s": 1000.0, "l2_bytes": 156, "flop_per_s": 1e12}
    assert guard.floor(PROBLEM, {"n": 64}, card) == pytest.approx((256 + 100) / 1000)
    assert guard.floor(scratch, {"n": 64}, card) == pytest.approx((256 + 100) / 1000)
    matmul = problems.get("02_matmul")
    assert guard.floor(matmul, {"m": 64, "k": 64, "n": 64}, {"flop_per_s": 1e6}) == pytest.approx(2 * 64**3 / 1e6)
    assert guard.floor(PROBLEM, {"n": 64}, {}) == 0.0
    assert guard.doubt(0.3, 0.356) and not guard.doubt(0.4, 0.356)

    class Fast(Fake):
        def describe(self):
            return super().describe() | card

    t = timing(Fast(submission=0.3, reference=0.3))
    assert "0.3 s is less than the 0.356 s" in t.doubt
    check = fast_enough(Evidence(PROBLEM, Built(), timing=t))
    assert (check.passed, check.code) == (None, "IE")  # for staff to look at; nobody's mark


def test_where_the_reference_is_no_faster_speed_is_not_judged():
    t = timing(Fake(submission=2.0, reference=2.0))
    check = fast_enough(Evidence(PROBLEM, Built(), timing=t))
    assert (t.shown, check.passed) == (False, None)
    assert "on this card the reference is no faster" in check.message


# ---- the size


def test_the_timed_size_makes_the_reference_take_milliseconds():
    asked = []

    def seconds(case):
        asked.append(case)
        return 2e-5 + case.sizes["n"] / 1e11  # 1.4 ms at 2^27

    assert sizing.timed_case(PROBLEM, seconds, 80 << 30) == PROBLEM.speed.measured
    slow = sizing.timed_case(PROBLEM, lambda c: c.sizes["n"] / 1e9, 80 << 30)
    assert 1e-3 <= slow.sizes["n"] / 1e9 <= 10e-3 and slow.sizes["n"] % sizing.GRAIN == 0


def test_counts_do_not_grow_with_the_size():
    assert sizing.scaled(Case({"n": 1 << 20, "rounds": 8}), 4.0).sizes == {"n": 1 << 22, "rounds": 8}
    assert sizing.scaled(Case({"m": 1024, "n": 1024}), 4.0).sizes == {"m": 2048, "n": 2048}
    assert sizing.scaled(Case({"rounds": 8}), 4.0).sizes == {"rounds": 8}


def test_the_timed_size_fits_into_memory():
    case = sizing.timed_case(PROBLEM, lambda c: 1e-5, 100 << 20)
    assert 30 << 20 < sizing.nbytes(PROBLEM, case) <= 40 << 20
    matmul = problems.get("02_matmul")
    case = sizing.timed_case(matmul, lambda c: np.prod(list(c.sizes.values()), dtype=float) / 1e12, None)
    assert 1e-3 <= np.prod(list(case.sizes.values()), dtype=float) / 1e12 <= 10e-3
    assert set(case.sizes) == {"m", "k", "n"}
