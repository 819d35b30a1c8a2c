"""Counters of kernels small enough to count by hand; every block counted."""

from functools import cache

import numpy as np
import pytest
from cuda.bindings import nvrtc

from grader.vgpu.devices import CARDS
from grader.vgpu.machine import LaunchOptions, Memory, Module, launch
from grader.vgpu.profile import profile

SOURCE = r"""
#define K extern "C" __global__ void
K coalesced(float *a) { a[blockIdx.x * blockDim.x + threadIdx.x] += 1; }
K shifted(float *a) { a[threadIdx.x + 1] += 1; }
K strided(float *a) { a[threadIdx.x * 2] += 1; }
K column(float *a) { a[threadIdx.x * 32] += 1; }
K same(float *a) { a[threadIdx.x + 64] = a[0]; }
K wide(float4 *a) { float4 v = a[threadIdx.x]; a[threadIdx.x + 32] = v; }
K few(float *a) { if (threadIdx.x < 8) a[threadIdx.x] += 1; }
K branches(float *a) {
    float v = a[threadIdx.x];
    if (threadIdx.x % 2) for (int k = 0; k < 64; ++k) v = __fsqrt_rn(v + k);
    a[threadIdx.x] = v;
}
K leaving(float *a) {
    float v = a[threadIdx.x];
#pragma unroll 1
    for (int k = 0; k < threadIdx.x; ++k) v = __fsqrt_rn(v + k);
    a[threadIdx.x] = v;
}
K together(float *a) {
    float v = a[threadIdx.x];
#pragma unroll 1
    for (int k = 0; k < 10; ++k) v = __fsqrt_rn(v + k);
    a[threadIdx.x] = v;
}
K moving(float *a) {
    float v = 0;
#pragma unroll 1
    for (int k = 0; k < 32; ++k) v += ((volatile float *)a)[threadIdx.x + k] + ((volatile float *)a)[k];
    a[threadIdx.x] = v;
}
K gather(float *a) {
    __shared__ volatile float s[1024];
    const int *at = (const int *)a;
    float v = 0;
#pragma unroll 1
    for (int k = 0; k < 64; ++k) {
        int i = at[32 * k + threadIdx.x];
        v += ((volatile float *)a)[2048 + i];
        s[i] = 1;
    }
    a[threadIdx.x] = v;
}
K conflict(float *a) {
    __shared__ volatile float s[32][32];
    s[threadIdx.x][0] = 1;
    __syncwarp();
    a[threadIdx.x] = s[0][threadIdx.x];
}
K padded(float *a) {
    __shared__ volatile float s[32][33];
    s[threadIdx.x][0] = 1;
    __syncwarp();
    a[threadIdx.x] = s[threadIdx.x][1];
}
K two_way(float *a) {
    __shared__ volatile float s[64];
    s[threadIdx.x * 2] = 1;
    __syncwarp();
    a[threadIdx.x] = s[threadIdx.x / 16 * 32 + 1];
}
K doubles(double *a) {
    __shared__ volatile double s[64];
    s[threadIdx.x] = 1;
    __syncwarp();
    a[threadIdx.x] = s[threadIdx.x];
}
K add_up(float *a) { atomicAdd(a, 1.0f); }
K asynchronous(float *a) {
    __shared__ float s[128];
    unsigned at = (unsigned)__cvta_generic_to_shared(s + 4 * threadIdx.x);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(a + 4 * threadIdx.x));
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group 0;");
    __syncwarp();
    a[threadIdx.x] = s[threadIdx.x];
}
"""


@cache
def ptx() -> bytes:
    _, program = nvrtc.nvrtcCreateProgram(SOURCE.encode(), b"kernels.cu", 0, [], [])
    assert int(nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=compute_80"])[0]) == 0
    _, size = nvrtc.nvrtcGetPTXSize(program)
    text = b" " * size
    nvrtc.nvrtcGetPTX(program, text)
    return text


def run(kernel: str, grid: int = 1, block: int = 32, given: np.ndarray | None = None):
    memory = Memory()
    module = Module(ptx(), memory)
    data = memory.allocate(1 << 16, "device")
    memory.view(data.address, 1 << 16)[:] = 0
    if given is not None:
        memory.view(data.address, given.nbytes)[:] = given.view(np.uint8)
    memory.written(data.address, 1 << 16)
    code = module.kernels[kernel]
    shape = (grid, 1, 1), (block, 1, 1)
    result = launch(code, *shape, np.uint64(data.address).tobytes(), 0, LaunchOptions(profile=True))
    assert result.fault is None
    return profile(result, CARDS["a100"], code, *shape, code.shared_bytes, 32)


LOADS, STORES = "Sectors/request, global load", "Sectors/request, global store"


@pytest.mark.parametrize(
    ("kernel", "metric", "value"),
    [
        # 32 lanes x 4 bytes, aligned: 128 bytes are 4 sectors.
        ("coalesced", LOADS, 4),
        ("coalesced", STORES, 4),
        ("coalesced", "Excessive sectors, global load", 0),
        # Bytes 4 to 131: sectors 0 to 4.
        ("shifted", LOADS, 5),
        ("shifted", "Excessive sectors, global store", 1),
        # Every second float: 256 bytes.
        ("strided", LOADS, 8),
        ("strided", "Excessive sectors, global load", 4),
        # A line for each lane.
        ("column", LOADS, 32),
        ("column", "Excessive sectors, global load", 28),
        # One word for all lanes.
        ("same", LOADS, 1),
        ("same", STORES, 4),
        # 32 x 16 bytes.
        ("wide", LOADS, 16),
        ("wide", "Excessive sectors, global load", 0),
        # 8 lanes of 4 bytes.
        ("few", LOADS, 1),
        # Column 0 of rows of 32 words: one bank. Row 0: all banks.
        ("conflict", "Ways, shared store", 32),
        ("conflict", "Shared store wavefronts", 32),
        ("conflict", "Bank conflicts, shared store", 31),
        ("conflict", "Ways, shared load", 1),
        # Rows of 33 words: 32 different banks.
        ("padded", "Ways, shared store", 1),
        ("padded", "Bank conflicts, shared load", 0),
        # Words 0, 2, ... 62: words 0 and 32 are in bank 0. Words 1 and 33 are in bank 1; others read them too.
        ("two_way", "Ways, shared store", 2),
        ("two_way", "Shared load wavefronts", 2),
        # 8 bytes a lane: two halves of a warp, each without conflict.
        ("doubles", "Shared store wavefronts", 2),
        ("doubles", "Bank conflicts, shared store", 0),
        # One word for all lanes.
        ("add_up", "Global atomic sectors", 1),
        # 32 x 16 bytes by cp.async; two groups, one wait.
        ("asynchronous", "Async copy bytes (LDGSTS)", 512),
        ("asynchronous", "cp.async groups", 2),
        ("asynchronous", "cp.async waits", 1),
        # 32 starts, each off by a float: 4 sectors where the start is a multiple of 8, else 5; and a word for all.
        ("moving", "Global load sectors", 4 * 4 + 28 * 5 + 32),
        # Lane k leaves after k turns: the question whether to start, and 30 of the 31 turns' ends, part the warp.
        ("leaving", "Divergent branches", 31),
        ("leaving", "Branch efficiency", pytest.approx(100 / 32)),
        ("together", "Divergent branches", 0),
        ("together", "Branch efficiency", 100),
        ("coalesced", "Threads/instruction", 32),
        ("coalesced", "Warp execution efficiency", 100),
    ],
)
def test_counters_of_one_warp_are_those_counted_by_hand(kernel, metric, value):
    assert run(kernel)[metric] == value


@pytest.mark.parametrize("seed", range(4))
def test_sectors_and_wavefronts_of_any_pattern_are_those_that_a_plain_count_gives(seed):
    """Patterns that repeat, move or change from turn to turn, against sets of sectors and of words a bank."""
    choose = np.random.default_rng(seed)
    rows = [choose.integers(0, 1024, 32) for _ in range(8)]
    rows += [(np.arange(32) * stride + start) % 1024 for stride in (0, 1, 2, 3, 16, 31, 32, 33) for start in (0, 1, 8)]
    picked = [rows[k] for k in np.sort(choose.integers(0, len(rows), 64))]  # sorted: the same comes several times
    found = run("gather", given=np.array(picked, np.int32).ravel())
    sectors = sum(len(set(row // 8)) for row in picked)
    assert found["Global load sectors"] == sectors + 64 * 4  # and the indices'
    wavefronts = sum(max(len(set(row[row % 32 == bank])) for bank in range(32)) for row in picked)
    assert found["Shared store wavefronts"] == wavefronts


def test_profiles_of_the_same_launch_are_equal():
    one, two = run("gather"), run("gather")
    assert str(one) == str(two)
    assert [m.value for m in one.metrics] == [m.value for m in two.metrics]


def test_counters_add_up_over_blocks():
    found = run("coalesced", grid=5, block=64)
    assert found["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 5 * 2 * 4
    assert found["smsp__inst_executed.sum"] % 10 == 0


def test_a_divergent_loop_halves_the_active_threads():
    assert 15.5 < run("branches")["Threads/instruction"] < 20
    assert "branch" in next(m for m in run("branches").metrics if m.name == "Threads/instruction").advice


def test_advice_is_given_for_what_is_bad_and_not_for_the_rest():
    bad = {m.name for m in run("conflict").metrics if m.advice}
    assert "Ways, shared store" in bad and "Ways, shared load" not in bad
    assert "Sectors/request, global store" not in bad
    assert "Sectors/request, global load" in {m.name for m in run("column").metrics if m.advice}


def test_every_warp_state_has_a_meaning_and_the_bad_ones_advice():
    from grader.vgpu.model.sm import STALLS
    from grader.vgpu.profile import Metric, advice

    assert set(STALLS) - {"dispatch stall"} == set(advice.STALLS)  # that one is not modelled
    for name in set(STALLS) - {"selected", "not selected", "membar", "dispatch stall"}:
        metric = Metric("Warp states", name, "", 95.0, "%", False, advice.STALLS[name])
        assert advice.advise(metric).advice, name


def test_warp_states_are_parts_of_one_whole():
    states = [m for m in run("branches").metrics if m.section == "Warp states"]
    assert sum(m.value for m in states) == pytest.approx(100, abs=4)
    assert all(m.id.startswith("smsp__pcsamp_warps_issue_stalled_") for m in states)


def test_the_table_names_lines_units_and_what_is_modelled():
    text = str(run("conflict"))
    assert "conflict  grid 1x1x1, block 32x1x1 on NVIDIA A100-SXM4-80GB" in text
    assert "every block counted" in text
    assert "-> pad the rows" in text
    assert all(len(line) < 160 for line in text.splitlines())


def test_occupancy_says_what_limits_it():
    metric = next(m for m in run("coalesced", block=256).metrics if m.name == "Theoretical occupancy")
    assert metric.value == 100 and "8 blocks an SM, limited by warps" in metric.meaning
