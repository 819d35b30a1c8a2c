"""Grading on the card: the sample submissions get their codes, faults stay with their submission, speed-ups repeat."""

import json
import statistics
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from grader import cli, devices, problems
from grader.devices import Run
from grader.program import Buffer, Launch, Program, Relocation

SAMPLES = Path(__file__).parents[1] / "corpus" / "submissions"
N = 64
PTX = b"""
.version 7.0
.target sm_75
.address_size 64
.visible .entry next(.param .u64 x, .param .u64 y)
{
    .reg .b64 %rd<8>; .reg .b32 %r<4>;
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    cvta.to.global.u64 %rd3, %rd1;
    cvta.to.global.u64 %rd4, %rd2;
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd5, %r1, 4;
    add.s64 %rd6, %rd3, %rd5;
    add.s64 %rd7, %rd4, %rd5;
    ld.global.u32 %r2, [%rd6];
    add.u32 %r2, %r2, 1;
    st.global.u32 [%rd7], %r2;
    ret;
}
.visible .entry wild(.param .u64 x, .param .u64 y)
{
    .reg .b64 %rd<3>; .reg .b32 %r<2>;
    ld.param.u64 %rd1, [x];
    cvta.to.global.u64 %rd2, %rd1;
    add.s64 %rd2, %rd2, 0x4000000000;
    mov.u32 %r1, 1;
    st.global.u32 [%rd2], %r1;
    ret;
}
.visible .entry forever(.param .u64 x, .param .u64 y)
{
    .reg .b64 %rd<3>; .reg .b32 %r<2>; .reg .pred %p;
    ld.param.u64 %rd1, [x];
    cvta.to.global.u64 %rd2, %rd1;
again:
    ld.volatile.global.u32 %r1, [%rd2];
    setp.ne.u32 %p, %r1, 12345;
    @%p bra again;
    ret;
}
"""
X = Buffer(4 * N, "device", "input", "x", "<i4", (N,))
Y = Buffer(4 * N, "device", "output", "y", "<i4", (N,))
INPUT = {"x": np.arange(N, dtype="<i4")}


def program(kernel: str, *more: Buffer) -> Program:
    places = (Relocation(0, 0, 0), Relocation(8, 1, 0))
    return Program.make((X, Y, *more), [PTX], [Launch(0, kernel, (1, 1, 1), (N, 1, 1), 0, bytes(16), places)])


@pytest.fixture(scope="module")
def opened(device):
    found = devices.open(device, trust=True)
    yield found
    found.close()


def is_well(device) -> bool:
    """It runs a right program and gives the right result."""
    (result,) = device.replay([Run(program("next"), INPUT)])
    return result.fault is None and (result.outputs["y"] == INPUT["x"] + 1).all()


@pytest.mark.parametrize(
    "kernel, kinds", [("wild", {"illegal_address", "launch"}), ("forever", {"timeout", "deadlock"})]
)
def test_a_fault_ends_with_its_program(opened, kernel, kinds):
    results = opened.replay([Run(program("next"), INPUT), Run(program(kernel), INPUT), Run(program("next"), INPUT)])
    assert [r.fault for r in results[:-1]] == [None] * (len(results) - 1)
    assert len(results) < 3
    assert results[-1].fault is not None
    assert results[-1].fault.kind in kinds
    assert is_well(opened)


HOG = """
import sys
from cuda.bindings import driver as cu
cu.cuInit(0)
cu.cuCtxSetCurrent(cu.cuDevicePrimaryCtxRetain(cu.cuDeviceGet(0)[1])[1])
free = cu.cuMemGetInfo()[1]
print(cu.cuMemAlloc(free - (2 << 30))[0].name, flush=True)
sys.stdin.read()
"""


@pytest.mark.gpu
def test_more_memory_than_there_is_ends_with_its_program(card):
    """Somebody else has all but 2 GB of the card."""
    hog = subprocess.Popen([sys.executable, "-c", HOG], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    opened = devices.open(card, trust=True)
    try:
        assert hog.stdout.readline().strip() == "CUDA_SUCCESS"
        (result,) = opened.replay([Run(program("next", Buffer(4 << 30, "device", "temp")), INPUT)])
        assert result.fault is not None
        assert result.fault.kind == "memory"
        hog.communicate()
        assert is_well(opened)
    finally:
        hog.kill()
        opened.close()


def grade(device: str, target: Path, *paths: Path) -> list[dict]:
    """The records of `grader grade`."""
    cli.main(
        ["grade", *map(str, paths), "--device", device, "--json", str(target), "--seed", "7", "--trust-submissions"]
    )
    return json.loads(target.read_text())


@pytest.mark.gpu
def test_samples_get_their_codes_on_the_card(card, tmp_path, note):
    expected = tomllib.loads((SAMPLES / "expected.toml").read_text())["code"]
    records = grade(card, tmp_path / "out.json", SAMPLES)
    got = {Path(r["submission"]).name: r["code"] for r in records}
    note("codes of the samples", got)
    assert got == expected
    assert {t["kind"] for r in records for t in r["times"].values()} == {"measured"}


@pytest.mark.gpu
def test_speedups_repeat_and_compare_with_the_model(card, tmp_path, note):
    """Recorded, not asserted: other people's work on the card is no fault of the grader's. Marks must be the same."""
    table = {}
    for name in problems.names():
        problem = problems.get(name)
        if problem.speed is None:
            continue
        source = Path(problems.__file__).parent / name / "reference.py"
        answer = tmp_path / f"{name}.py"
        answer.write_text(source.read_text())
        on_card = [grade(card, tmp_path / "card.json", answer)[0] for _ in range(3)]
        (modelled,) = grade("virtual:a100", tmp_path / "virtual.json", answer)
        speedups = [r["speedup"]["over_baseline"] for r in on_card if r["speedup"]]
        table[name] = {
            "codes": [r["code"] for r in on_card],
            "points": [r["points"] for r in on_card],
            "measured speed-ups": speedups,
            "spread": max(speedups) / min(speedups) - 1 if speedups else None,
            "median": statistics.median(speedups) if speedups else None,
            "modelled on an A100": modelled["speedup"] and modelled["speedup"]["over_baseline"],
        }
    note("references, thrice each", table)
    assert {name: row["codes"] for name, row in table.items()} == {name: ["AC"] * 3 for name in table}
    assert all(len(set(row["points"])) == 1 for row in table.values())
