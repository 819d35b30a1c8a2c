"""Host functions that look at their numbers: called for every set of inputs, replayed with these, flagged."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from grader import cli, live, report, rules
from grader.evidence import CHOICE, Built, Draw, Evidence, Fault, RunResult, Swap
from grader.grade import grade
from grader.problems.model import Array, Case, HostFunction, Problem, Tolerance
from grader.program import Buffer, Copy, Fill, Graph, GraphLaunch, HostCopy, HostWrite, Launch, Node, Place, Program
from grader.report.overview import flagged
from grader.rules import host
from grader.submission import Cell
from grader.verdict import decide, live_flags

SIZES = (1, 97, 1000)
HEAD = """
import numpy as np
from numba import cuda

@cuda.jit
def partial_sums(x, sums):
    i = cuda.grid(1)
    s = 0.0
    for k in range(i, x.size, cuda.gridsize(1)):
        s += x[k]
    sums[i] = s

@cuda.jit
def divide(x, by, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] / by[0]

@cuda.jit
def copy(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i]

def blocks(x):
    return -(-x.size // 128)

"""
LINE = HEAD.count("\n") + 2  # of the first line of the body


def _shape(s):
    return (s["n"],)


def normalise(**options) -> Problem:
    """y = x / sum(x), everything in pinned memory."""
    return Problem(
        name="99_normalise", title="", statement="", cases=tuple(Case({"n": n}) for n in SIZES),
        entry=HostFunction("solve", (Array("x", _shape, where="pinned"), Array("y", _shape, "output", where="pinned"))),
        secret=lambda rng: [], inputs=lambda rng, s: {"x": rng.uniform(1, 9, s["n"]).astype("f4")},
        reference=lambda inputs, s: {"y": inputs["x"].astype("f8") / inputs["x"].astype("f8").sum()},
        rubric=rules.correct_host(8, 2, **options), hints=("", "", ""), tolerance=Tolerance(1e-5),
    )  # fmt: skip


def total() -> Problem:
    """y[0] = sum(x)."""
    y = Array("y", lambda s: (1,), "output", where="pageable")
    return replace(
        normalise(host_finishes=True),
        entry=HostFunction("solve", (Array("x", _shape, where="pinned"), y)),
        reference=lambda inputs, s: {"y": inputs["x"].astype("f8").sum(keepdims=True)},
    )


def graded(bench, body: str, problem: Problem | None = None, head: str = ""):
    source = HEAD + "def solve(x, y):\n" + "".join(f"    {line}\n" for line in body.strip().split("\n")) + head
    return grade([Cell("submission.py", source)], problem or normalise(), bench, 7)


def check(verdict, name: str):
    return next(c for c in verdict.checks if c.name == name)


HONEST = {
    "arithmetic between two copies": (
        """
d_x, d_s, d_y = cuda.to_device(x), cuda.device_array(128, np.float32), cuda.device_array(x.size, np.float32)
partial_sums[1, 128](d_x, d_s)
whole = np.array([d_s.copy_to_host().astype("f8").sum()], np.float32)
divide[blocks(x), 128](d_x, cuda.to_device(whole), d_y)
d_y.copy_to_host(y)
        """,
        "4 bytes that the host computes itself and copies to the device (line 4)",
    ),
    "a branch on a value that was copied back": (
        """
d_x, d_s, d_y = cuda.to_device(x), cuda.device_array(128, np.float32), cuda.device_array(x.size, np.float32)
partial_sums[1, 128](d_x, d_s)
partial_sums[1, 1](d_s, d_y[:1])
threads = 128 if int(d_y[:1].copy_to_host()[0]) % 2 else 64
partial_sums[1, 1](d_s, d_s[:1])
divide[-(-x.size // threads), threads](d_x, d_s[:1], d_y)
d_y.copy_to_host(y)
        """,
        "a kernel launch (block; line 6)",
    ),
    "as many launches as the numbers ask for": (
        """
d_x, d_s, d_y = cuda.to_device(x), cuda.device_array(128, np.float32), cuda.device_array(x.size, np.float32)
partial_sums[1, 128](d_x, d_s)
partial_sums[1, 1](d_s, d_s[:1])
for _ in range(1 + int(x[0] * 1000) % 5):
    divide[blocks(x), 128](d_x, d_s[:1], d_y)
d_y.copy_to_host(y)
        """,
        "(line 5)",
    ),
}


@pytest.mark.parametrize("what", HONEST)
def test_what_looks_at_its_numbers_is_graded_live_told_and_flagged(bench, what):
    body, words = HONEST[what]
    verdict = graded(bench, body)
    assert (verdict.code, verdict.points) == ("AC", 10), verdict.message
    where = re.sub(r"line (\d)", lambda m: f"line {LINE + int(m[1]) - 1}", words)
    assert where in check(verdict, "compiles").message and "Graded live" in check(verdict, "compiles").message
    assert verdict.flags[0].startswith("held for review: graded live, because what solve asks of CUDA depends on")
    assert where in verdict.flags[0]
    assert [s.same for s in verdict.evidence.swaps] == [0, 0, 0]
    record = report.make("a.py", verdict, device={"spec": "virtual:a100", "name": "A100"}, seed=7, wall_seconds=1.0)
    assert record["flags"][0] == verdict.flags[0]
    assert flagged([record]) == [(record, record["flags"])]


def test_the_host_may_finish_where_the_exercise_lets_it(bench):
    body = """
d_x, d_s = cuda.to_device(x), cuda.device_array(128, np.float32)
partial_sums[1, 128](d_x, d_s)
y[0] = d_s.copy_to_host().astype("f8").sum()
    """
    verdict = graded(bench, body, total())
    assert (verdict.code, verdict.points) == ("AC", 10), verdict.message
    assert "up to 100% of the size of the results" in verdict.flags[1]
    assert [s.same for s in verdict.evidence.swaps] == [0, 1, 1]  # of one number the sum is a copy


def test_what_does_not_depend_on_its_numbers_is_graded_as_ever(bench):
    body = """
d_x, d_s, d_y = cuda.to_device(x), cuda.device_array(128, np.float32), cuda.device_array(x.size, np.float32)
partial_sums[1, 128](d_x, d_s)
partial_sums[1, 1](d_s, d_s[:1])
divide[blocks(x), 128](d_x, d_s[:1], d_y)
d_y.copy_to_host(y)
    """
    verdict = graded(bench, body)
    assert (verdict.code, verdict.points, verdict.flags, verdict.evidence.swaps) == ("AC", 10, (), ())
    assert set(verdict.evidence.built.programs) == {f"n = {n}" for n in SIZES}


STAYS, HANDED_ON = "n = 97: 97 of 97 results stay as they are", "bytes of the arrays' numbers by itself"
CHEATS = {
    "the host writes the answer": ("copy[blocks(x), 128](x, cuda.device_array_like(x))\ny[:] = x / x.sum()", STAYS),
    "the answer is copied up and down": (
        "d = cuda.to_device(x / x.sum())\ncopy[1, 1](d[:0], d[:0])\nd.copy_to_host(y)", STAYS,
    ),
    "a kernel copies the answer": (
        "d, e = cuda.to_device(x / x.sum()), cuda.device_array_like(x)\ncopy[blocks(x), 128](d, e)\ne.copy_to_host(y)", STAYS,
    ),
    "the answer comes in the arguments": ("for i, v in enumerate(x / x.sum()):\n    put[1, 1](y, i, v)", STAYS),
    "the answer is put together from two halves": (
        """
d, e, u = cuda.to_device(x / x.sum()), cuda.device_array_like(x), cuda.to_device(x)
add_difference[blocks(x), 128](d, u, cuda.to_device(2 * x), e)
e.copy_to_host(y)
        """,
        HANDED_ON,
    ),
    "the answer comes in the arguments, and is not taken with other inputs": (
        "for i, v in enumerate(x / x.sum()):\n    put_if[1, 1](y, i, v, x, x[0])", "n = 97: the host computes",
    ),
    "it does not work with other inputs": (
        """
d, e = cuda.to_device(x / x.sum()), cuda.device_array_like(x)
copy_if[blocks(x), 128](d, cuda.to_device(x), x[0], e)
e.copy_to_host(y)
        """,
        HANDED_ON,
    ),
}  # fmt: skip
MORE = """

@cuda.jit
def put(y, i, v):
    y[i] = v

@cuda.jit
def put_if(y, i, v, x, first):
    y[i] = v if x[0] == first else 0

@cuda.jit
def add_difference(answer, x, known, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = answer[i] + (2 * x[i] - known[i])

@cuda.jit
def copy_if(answer, x, first, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i if x[0] == first else i + 1000000000] = answer[i]
"""


@pytest.mark.parametrize("what", CHEATS)
def test_an_answer_that_the_host_computed_is_caught(bench, what):
    body, words = CHEATS[what]
    verdict = graded(bench, body, head=MORE)
    assert (verdict.code, check(verdict, "works_on_device").passed) == ("WA", False), verdict.message
    assert words in verdict.message
    assert verdict.points == 0
    assert "held for review" in verdict.flags[0]


def test_a_failure_with_the_inputs_of_the_grader_is_told(bench):
    body = (
        "if x[0] < 9 and x.size == 97 and x.max() < 9:\n    1 / 0\n"
        + HONEST["arithmetic between two copies"][0].strip()
    )
    verdict = graded(bench, body)
    assert verdict.code == "RTE"
    assert f"line {LINE + 1}: ZeroDivisionError" in verdict.message
    assert "graded live" in verdict.flags[0]


def test_a_reply_that_only_says_live_is_no_recording_once_the_inputs_are_given(bench):
    head = "\nimport grader.jobs as j\nfrom grader.host import DependsOnData\ndef called(*a):\n    raise DependsOnData('yes')\nj._called = called\n"
    verdict = graded(bench, "copy[blocks(x), 128](x, y)", head=head)
    assert (verdict.code, verdict.points) == ("RTE", 0)
    assert "not of the right form" in verdict.message


class Echo:
    """A device whose programs copy x to y, or always give the answer to other inputs."""

    def __init__(self, stays: np.ndarray | None = None, fault=None):
        self.stays, self.fault = stays, fault

    def replay(self, runs):
        self.runs = runs
        return [
            RunResult(
                "E", "modelled", {"y": runs[0].inputs["x"] if self.stays is None else self.stays}, fault=self.fault
            )
        ]


def test_results_that_follow_the_inputs_are_told_from_those_that_stay():
    problem = replace(normalise(), reference=lambda inputs, s: {"y": inputs["x"].astype("f8")})
    x = np.arange(1, 101, dtype="f4")
    half = np.concatenate([x[:50], np.full(50, -1, "f4")])
    program = Program.make([Buffer(400, "host", "output", "y", "<f4", (100,))], [], [])
    draw, other = Draw(Case({"n": 100}), {"x": x}), Draw(Case({"n": 100}), {"x": -x})
    for device, same in ((Echo(), 0), (Echo(x), 100), (Echo(half), 50)):
        (told,) = live.swap(device, problem, [draw], [program], [other], [program])
        assert (told.same, told.size, told.hosts, told.results) == (same, 100, 0, 400)
        assert (device.runs[0].inputs["x"] == -x).all()


def test_recordings_that_fail_with_other_inputs_are_tried_a_few_times():
    draws, program = [Draw(Case({"n": 1}), {"x": np.ones(1, "f4")})] * 9, made(bytes(4))
    device = Echo(fault=Fault("trap", "bang"))
    found = live.swap(device, normalise(), draws, [program] * 9, draws, [program] * 9)
    assert [s.fault for s in found] == ["bang"] * 3 + ["not tried, because others failed"] * 6


def made(*blobs: bytes) -> Program:
    """The host writes the first, and copies the second to the device."""
    buffers = [Buffer(16, "host", "output", "y", "<f4", (4,)), Buffer(16, "device", "temp")]
    ops = [HostWrite(Place(0, 0), 0), *([Copy(Place(1, 0), None, len(blobs[1]), blob=1)] if blobs[1:] else [])]
    return Program.make(buffers, [], ops, blobs=blobs, clock="host")


def test_of_the_hosts_own_bytes_those_count_that_other_inputs_change():
    first = made(bytes(4), b"answered")
    assert live.made_of_inputs(first, first) == 0
    assert live.made_of_inputs(first, made(bytes(4), b"ANSWERED")) == 8
    assert live.made_of_inputs(first, made(bytes(8))) == 12


def test_what_lay_in_memory_before_the_call_counts_too():
    def laid(blob: bytes) -> Program:
        return Program.make([Buffer(8, "device", "temp", initial=0)], [], [], blobs=(blob,), clock="host")

    assert live.made_of_inputs(laid(b"answered"), laid(b"answered")) == 0
    assert live.made_of_inputs(laid(b"answered"), laid(b"ANSWERED")) == 8


PTX = b".version 8.0\n.target sm_80\n.visible .global .b32 t[] = {%s};\n.visible .entry k() { ret; }\n"


def asks(numbers: np.ndarray, where: str) -> Program:
    """The numbers are in the code, in the parameters of launches or of a graph's, in memsets, or in where the host copies from."""
    host = [Buffer(1 << 20, "host", "temp"), Buffer(1 << 20, "host", "temp")]
    code = PTX % (b",".join(b"0x%x" % v for v in numbers) if where == "code" else b"0")
    launches = [Launch(0, "k", (1, 1, 1), (1, 1, 1), 0, part.tobytes()) for part in numbers.reshape(-1, 512)]
    ops = {
        "code": [],
        "parameters": launches,
        "nodes": [Graph(0, tuple(Node(launch) for launch in launches)), GraphLaunch(0)],
        "memsets": [Fill(Place(0, 0), 4, int(v) % (1 << 32), 1) for v in numbers],
        "places": [HostCopy(Place(0, 4 * k), Place(1, int(v) % (1 << 19)), 4) for k, v in enumerate(numbers)],
    }
    return Program.make(host, [code], ops[where], clock="host")


@pytest.mark.parametrize("where", ["code", "parameters", "nodes", "memsets", "places"])
def test_an_answer_in_code_parameters_or_places_counts_and_a_choice_does_not(where):
    one, other = (np.random.default_rng(seed).integers(1 << 40, 1 << 60, 8192) for seed in (1, 2))
    assert live.made_of_inputs(asks(one, where), asks(one, where)) == 0
    assert live.made_of_inputs(asks(one, where), asks(other, where)) >= 8192 * 8 - CHOICE
    few = live.made_of_inputs(asks(one[:512], where), asks(other[:512], where))
    assert few == (512 * 8 if where in ("parameters", "nodes") else 0)  # numbers that a kernel is given are no choice


def test_the_order_in_which_kernels_are_compiled_is_a_choice():
    def asked(*numbers: int) -> Program:
        names = [
            f"_ZN4test{kernel}B{1 + len(str(n))}v{n}B10cw51cXTLSUE" for kernel, n in zip("ab", numbers, strict=True)
        ]
        code = [b".version 8.0\n.visible .entry %s() { ret; }\n" % name.encode() for name in names]
        launches = [Launch(k, name, (1, 1, 1), (1, 1, 1), 0, bytes(8)) for k, name in enumerate(names)]
        return Program.make([Buffer(16, "host", "output", "y", "<f4", (4,))], code, launches * 3000, clock="host")

    one, other, draw = asked(1, 2), asked(12, 1), Draw(Case({"n": 1}), {"x": np.ones(1, "f4")})
    assert live.made_of_inputs(one, other) == 0
    assert live.swap(Echo(), normalise(), [draw], [one], [draw], [other])[0].kernels == 0


def test_kernels_that_only_these_inputs_lead_to_are_told():
    draw, program = Draw(Case({"n": 1}), {"x": np.ones(1, "f4")}), asks(np.arange(512), "code")
    for theirs, known, fresh in ((1, set(), 1), (1, set(program.modules), 0), (0, set(), 0)):
        other = asks(np.arange(512) + theirs, "code")
        (told,) = live.swap(Echo(), normalise(), [draw], [program], [draw], [other], known)
        assert told.kernels == fresh
    told = live_flags(evidence(Swap(Case({"n": 4}), results=16, kernels=1)))
    assert "n = 4: 1 of the modules of kernels" in told[1]


def test_launches_that_only_come_more_often_are_a_choice():
    one = np.full(1 << 17, 7)
    assert live.made_of_inputs(asks(one, "parameters"), asks(one[:512], "parameters")) == 0


def evidence(*swaps: Swap) -> Evidence:
    return Evidence(normalise(), Built({"n = 4": made(bytes(4))}, live="it does"), swaps=swaps)


def test_the_flags_say_how_much_is_the_hosts_and_what_could_not_be_tried():
    case = Case({"n": 4})
    assert live_flags(evidence()) == ["held for review: graded live, because it does"]
    first, second, few = live_flags(evidence(Swap(case, 12, 16)))
    assert first == "held for review: graded live, because it does" and "75%" in second
    assert few.startswith("no size has more than 16 bytes of results") and few.endswith("look at its code")
    assert not any("look at its code" in f for f in live_flags(evidence(Swap(case, 0, 16), Swap(case, 0, CHOICE + 1))))
    assert "n = 4: bang" in live_flags(evidence(Swap(case, fault="bang", results=16)))[1]
    assert live_flags(replace(evidence(), built=Built())) == []
    assert decide(evidence()).flags[0] == first


@pytest.mark.parametrize(
    ("numbers", "passed"),
    [
        ({"same": 32, "size": 64}, True),
        ({"same": 33, "size": 64}, False),
        ({"same": 63, "size": 63, "hosts": 256}, True),
        ({"hosts": 128, "size": 64}, True),
        ({"hosts": 129, "size": 64}, False),
    ],
)
def test_most_of_many_results_must_be_the_work_of_kernels(monkeypatch, numbers, passed):
    monkeypatch.setattr(host, "kernels_launched", lambda program: (1, 0))
    e = evidence(Swap(Case({"n": 64}), results=256, **numbers))
    assert host.works_on_device(e).passed is passed
    assert host.works_on_device(e, host_finishes=True).passed is True


def test_the_command_shows_what_one_set_of_inputs_leads_to(tmp_path, capsys):
    answer = Path(__file__).parents[1] / "corpus" / "honest" / "live_counts_chunks_by_the_data.py"
    assert cli.main(["program", "show", str(answer), "--case", "n = 1009"]) == 0
    out, err = capsys.readouterr()
    assert "depends on the numbers in its arrays" in err and "one set of inputs" in err
    assert 8 <= out.count("kernel brighten[4, 128]") <= 10
