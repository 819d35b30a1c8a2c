"""The clock waits where a kernel waits: for groups of cp.async, at mbarriers, for bulk copies."""

from functools import cache

import numpy as np
import pytest
from cuda.bindings import nvrtc

from grader.vgpu.devices import CARDS
from grader.vgpu.machine import LaunchOptions, Memory, Module, launch
from grader.vgpu.model import cards
from grader.vgpu.profile import profile
from grader.vgpu.warps import block_timeline

SOURCE = r"""
typedef unsigned long long u64;
__device__ unsigned at(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init(u64 *b, unsigned n) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at(b)), "r"(n)); }
__device__ void arrive(u64 *b) { asm volatile("{ .reg .b64 t; mbarrier.arrive.shared.b64 t, [%0]; }" ::"r"(at(b))); }
__device__ void expect(u64 *b, unsigned n) {
    asm volatile("{ .reg .b64 t; mbarrier.arrive.expect_tx.shared.b64 t, [%0], %1; }" ::"r"(at(b)), "r"(n));
}
__device__ void wait(u64 *b, unsigned parity) {
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(at(b)), "r"(parity) : "memory");
}
__device__ void bulk(float *s, const float *g, unsigned n, u64 *b) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(at(s)), "l"(g), "r"(n), "r"(at(b)) : "memory");
}

// A ring of STAGES tiles of 512 floats: thread 128 fetches them, threads 0 to 127 add them up.
template <int STAGES> __device__ void ring(int tiles, const float *a, float *out) {
    __shared__ __align__(128) float tile[STAGES][512];
    __shared__ u64 full[STAGES], empty[STAGES];
    int t = threadIdx.x;
    if (t < STAGES) init(&full[t], 1), init(&empty[t], 128);
    __syncthreads();
    if (t >= 128) {
        if (t == 128)
            for (int k = 0; k < tiles; ++k) {
                int s = k % STAGES;
                if (k >= STAGES) wait(&empty[s], (k / STAGES - 1) & 1);
                expect(&full[s], 2048);
                bulk(tile[s], a + 512 * k, 2048, &full[s]);
            }
        return;
    }
    float sum = 0;
    for (int k = 0; k < tiles; ++k) {
        int s = k % STAGES;
        wait(&full[s], (k / STAGES) & 1);
        for (int j = 0; j < 4; ++j) sum += tile[s][t + 128 * j];
        arrive(&empty[s]);
    }
    out[t] = sum;
}
extern "C" __global__ void ring1(int tiles, const float *a, float *out) { ring<1>(tiles, a, out); }
extern "C" __global__ void ring2(int tiles, const float *a, float *out) { ring<2>(tiles, a, out); }
extern "C" __global__ void ring4(int tiles, const float *a, float *out) { ring<4>(tiles, a, out); }

// Warp 0 computes for long, then arrives; warp 1 waits for it.
extern "C" __global__ void late(int n, const float *a, float *out) {
    __shared__ u64 bar;
    int t = threadIdx.x;
    if (t == 0) init(&bar, 32);
    __syncthreads();
    float v = a[t];
    if (t < 32) {
        for (int k = 0; k < n; ++k) v = v * 1.5f + 0.5f;
        arrive(&bar);
    } else wait(&bar, 0);
    out[t] = v;
}

// The same tile by cp.async whose arrival an mbarrier waits for.
extern "C" __global__ void copied(int tiles, const float *a, float *out) {
    __shared__ __align__(16) float tile[128];
    __shared__ u64 full;
    int t = threadIdx.x;
    if (t == 0) init(&full, 32);
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < tiles; ++k) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at(tile + 4 * t)), "l"(a + 128 * k + 4 * t));
        asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(at(&full)));
        wait(&full, k & 1);
        sum += tile[t] + tile[t ^ 1];
        __syncthreads();
    }
    out[t] = sum;
}
extern "C" __global__ void stored(int tiles, const float *a, float *out) {
    __shared__ __align__(128) float tile[1024];
    for (int k = threadIdx.x; k < 1024; k += 32) tile[k] = a[k];
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("fence.proxy.async.shared::cta;");
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(out), "r"(at(tile)), "r"(4096));
        asm volatile("cp.async.bulk.commit_group;");
        asm volatile("cp.async.bulk.wait_group 0;");
    }
}
"""
H100 = CARDS["h100"]


@cache
def ptx() -> bytes:
    _, program = nvrtc.nvrtcCreateProgram(SOURCE.encode(), b"waits.cu", 0, [], [])
    code = nvrtc.nvrtcCompileProgram(program, 2, [b"--gpu-architecture=compute_90", b"-lineinfo"])[0]
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = b" " * size
    nvrtc.nvrtcGetProgramLog(program, log)
    assert int(code) == 0, log.decode()
    _, size = nvrtc.nvrtcGetPTXSize(program)
    text = b" " * size
    nvrtc.nvrtcGetPTX(program, text)
    return text


def run(kernel: str, threads: int, n: int, picture: bool = False):
    """The profile, or the picture, of one block of `threads` threads, with sums checked where there are any."""
    memory = Memory()
    code = Module(ptx(), memory).kernels[kernel]
    data, out = memory.allocate(1 << 20, "device"), memory.allocate(1 << 13, "device")
    memory.view(data.address, 1 << 20).view(np.float32)[:] = 1
    memory.written(data.address, 1 << 20)
    args = np.int32(n).tobytes().ljust(8, b"\0") + np.uint64(data.address).tobytes() + np.uint64(out.address).tobytes()
    shape = (1, 1, 1), (threads, 1, 1)
    result = launch(code, *shape, args, 0, LaunchOptions(profile=True))
    assert result.fault is None and result.findings == []
    if kernel.startswith("ring"):
        assert set(memory.view(out.address, 512).view(np.float32)) == {4.0 * n}
    if picture:
        return block_timeline(H100, code, *shape, code.shared_bytes, 32, result)
    return profile(result, H100, code, *shape, code.shared_bytes, 32)


def test_a_tile_of_one_stage_costs_its_latency_and_more_stages_hide_it():
    tiles, times = 96, cards.timing("h100")
    one, two, four = (run(f"ring{stages}", 160, tiles).time.cycles for stages in (1, 2, 4))
    assert one > tiles * times.dram_latency
    assert two < 0.65 * one
    assert four < 0.65 * two


def test_waiting_for_a_bulk_copy_is_a_wait_for_memory():
    found = run("ring1", 160, 96)
    assert found.time.stalls["long scoreboard"] > 0.5
    line = next(k for k, text in enumerate(SOURCE.splitlines(), 1) if "mbarrier.try_wait" in text)
    waits = {n: sum(parts.values()) for n, parts in found.time.lines.items()}
    assert max(waits, key=waits.get) in (line - 1, line, line + 1)


def test_bulk_copies_are_counted_and_pass_by_the_l1():
    found = run("ring2", 160, 10)
    assert found["Bulk copy bytes (TMA)"] == 10 * 2048
    assert found.time.dram_read == pytest.approx(10 * 2048, abs=64)
    assert run("stored", 32, 0)["Bulk copy bytes (TMA)"] == 4096


def test_long_rings_are_extrapolated_from_what_their_traces_hold():
    short, long = (run("ring2", 160, tiles).time.cycles for tiles in (128, 512))
    assert long / short == pytest.approx(4, rel=0.15)


def test_waiting_for_another_warp_at_an_mbarrier_is_a_wait_at_a_barrier():
    short, long = run("late", 64, 10), run("late", 64, 2000)
    assert long.time.cycles - short.time.cycles == pytest.approx(1990 * 4, rel=0.3)
    assert long.time.stalls["barrier"] > 0.4  # one of the two warps waits for nearly all of the time


def test_an_arrival_of_copies_waits_for_them():
    tiles = 40
    found = run("copied", 32, tiles)
    assert found.time.cycles > tiles * cards.timing("h100").dram_latency
    assert found.time.stalls["long scoreboard"] > 0.5


def test_bulk_groups_are_waited_for():
    assert run("stored", 32, 0).time.cycles > 2 * cards.timing("h100").l2_latency


def test_the_picture_shows_who_waits_for_what():
    shown = run("ring1", 160, 48, picture=True)
    consumers = [s for s in shown.segments if s.warp < 4]
    waiting = sum(s.end - s.start for s in consumers if s.what == "waits for memory")
    assert waiting > 0.5 * sum(s.end - s.start for s in consumers)
