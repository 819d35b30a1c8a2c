"""The timing protocol against a device whose noise is known."""

import numpy as np
import pytest

from grader import measure, problems
from grader.devices import Run
from grader.evidence import Fault, RunResult, Side
from grader.measure import Policy
from grader.measure.statistics import interval, settled
from grader.problems.model import Case
from grader.program import Buffer, Program

PROBLEM = problems.get("00_grid_stride")
CASE = Case({"n": 64})
BUFFERS = [Buffer(256, "device", "input", "x", "<f4", (64,)), Buffer(256, "device", "output", "y", "<f4", (64,))]
SIDES = {side: Program.make(BUFFERS, [f".version {i}".encode()], []) for i, side in enumerate(("s", "b", "r"))}
PROGRAMS = {"submission": SIDES["s"], "baseline": SIDES["b"], "reference": SIDES["r"]}
POLICY = Policy(least_rounds=11, most_rounds=41, repeats=3, warm_calls=2, warm_seconds=0.0)


class Fake:
    """A GPU that takes as long as it is told, times a noise."""

    kind, spec, sanitizes = "measured", "cuda:0", False

    def __init__(self, noise=lambda call: 1.0, spoil=None, **seconds):
        self.seconds = {"submission": 1.0, "baseline": 2.0, "reference": 0.8} | seconds
        self.noise, self.spoil = noise, spoil
        self.calls: list[tuple[str, Run]] = []

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


def timing(device, seed=0, policy=POLICY, **more):
    rng = np.random.default_rng(seed)
    return measure.compare_sides(device, PROGRAMS, PROBLEM, CASE, rng, policy, **more)


def test_a_quiet_device_needs_the_least_rounds_and_gives_exact_ratios():
    t = timing(Fake())
    assert (t.rounds, t.speedup, t.to_reference, t.ambiguous) == (11, 2.0, 1.25, False)
    assert t.sides["submission"] == Side(1.0, {}, 33)


def test_drift_cancels_within_rounds():
    t = timing(Fake(noise=lambda call: 1.0 + call / 500))
    assert t.speedup == pytest.approx(2.0, rel=0.03)


def test_spikes_do_not_move_the_median():
    rng = np.random.default_rng(5)
    t = timing(Fake(noise=lambda call: 10.0 if rng.random() < 0.1 else 1.0))
    assert t.speedup == pytest.approx(2.0, rel=0.01)


def test_heavy_noise_at_a_mark_takes_all_rounds_and_is_called_ambiguous():
    rng = np.random.default_rng(6)
    t = timing(Fake(noise=lambda call: rng.lognormal(0, 0.5), baseline=PROBLEM.speed.bar))
    assert t.rounds == 41
    assert t.ambiguous
    assert t.interval[0] < PROBLEM.speed.bar < t.interval[1]


def test_time_is_limited_but_not_below_the_least_rounds():
    clock = iter(range(0, 100_000, 100))
    rng = np.random.default_rng(6)
    t = timing(Fake(noise=lambda call: rng.lognormal(0, 0.5)), now=lambda: next(clock))
    assert t.rounds == 11


def test_sides_take_turns_in_random_order_on_content_that_never_comes_back():
    device = Fake()
    timing(device)
    timed = [(side, run) for side, run in device.calls if run.timed]
    orders = {tuple(s for s, _ in timed[i : i + 9 : 3]) for i in range(0, len(timed), 9)}
    assert len(orders) > 2
    own = [run.inputs["x"].tobytes() for side, run in timed if side == "submission"]
    assert len(set(own)) == len(own) == 33
    assert len({run.poison for _, run in timed}) > 1


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


def test_the_interval_holds_the_median_and_narrows():
    rng = np.random.default_rng(0)
    widths = []
    for n in (11, 41):
        low, high = interval(rng.normal(1, 0.1, n), rng)
        assert low < 1.1 and high > 0.9
        widths.append(high - low)
    assert widths[1] < widths[0]


def test_clear_of_every_boundary_is_settled_however_wide():
    assert settled((2.0, 3.0), 2.5, [1.5, 4.0], 0.02)
    assert not settled((2.0, 3.0), 2.5, [2.4], 0.02)
    assert settled((2.49, 2.51), 2.5, [2.5], 0.02)
