"""The published experiments: what was measured, where it was published, and what the clock says of the same program."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from grader.vgpu import devices
from grader.vgpu.driver import clock, paging

from .harness import HERE, time

GEMM, MEMORY, PIPELINE, TILES = (
    (HERE / name).read_text() for name in ("gemm.cu", "memory.cu", "pipeline.cu", "tiles.cu")
)
GUIDE = "CUDA C++ Best Practices Guide, docs.nvidia.com/cuda/cuda-c-best-practices-guide"


@dataclass(frozen=True)
class Row:
    """One figure."""

    what: str
    published: float
    modelled: float
    unit: str
    absolute: bool = True  # the figure itself was published for this card; else only its ratio to the rows beside it


@dataclass(frozen=True)
class Experiment:
    """Rows that belong together, slowest first: their order is published, and the ratios of neighbours."""

    name: str
    device: str
    source: str
    run: Callable[[], Iterator[Row]]


EXPERIMENTS: list[Experiment] = []


def experiment(name: str, device: str, source: str):
    """Register a generator of rows."""

    def add(run):
        EXPERIMENTS.append(Experiment(name, device, source, run))
        return run

    return add


@experiment("matrix product, n = 4096", "a6000", "Boehm, How to Optimize a CUDA Matmul Kernel (2022), siboehm.com")
def gemm() -> Iterator[Row]:
    n = 4096
    for kernel, grid, block, published in (
        ("naive", (128, 128, 1), (32, 32, 1), 309.0),
        ("coalesced", (128, 128, 1), (32, 32, 1), 1986.5),
        ("tiled", (128, 128, 1), (32, 32, 1), 2980.3),
        ("column8", (64, 64, 1), (512, 1, 1), 8474.7),
        ("square8", (32, 32, 1), (256, 1, 1), 15971.7),
    ):
        us = time("a6000", GEMM, kernel, grid, block, [np.int32(n), 4 * n * n, 4 * n * n, 4 * n * n]).us
        yield Row(kernel, published, 2 * n**3 / us / 1e3, "GFLOP/s")


@experiment(
    "cycles of the L1 a load of a warp takes, by stride",
    "a100",
    "reported of a microbenchmark of L1-hit loads on A100; no document to cite",
)
def l1_stride() -> Iterator[Row]:
    for stride in (1, 2, 4, 8, 16, 32):
        few, many = (
            time(
                "a100",
                MEMORY,
                "l1_stride",
                (1, 1, 1),
                (1024, 1, 1),
                [np.int32(stride), np.int32(n), np.int32(0), 1 << 20, 1 << 20],
            ).cycles
            for n in (16, 48)
        )
        yield Row(f"{stride} floats", stride, (many - few) / (32 * 16 * 32), "cycles")


@experiment(
    "transpose, n = 1024, of a copy's bandwidth",
    "v100",
    "Harris, An Efficient Matrix Transpose in CUDA C/C++ (2013): ratios, on K20c",
)
def transpose() -> Iterator[Row]:
    n = 1024
    for kernel, published in (
        ("transpose_naive", 55.3),
        ("transpose_tile", 94.5),
        ("transpose_padded", 133.0),
        ("transpose_copy", 136.1),
    ):
        us = time("v100", MEMORY, kernel, (32, 32, 1), (32, 8, 1), [np.int32(n), 4 * n * n, 4 * n * n]).us
        yield Row(kernel, published, 8 * n * n / us / 1e3, "GB/s", absolute=False)


# The guide gives no sizes. From n = 2048 on the start of a kernel no longer shows, and the ratios do not change.
TILES_N = 2048


def _tiles(kernels, arrays: int) -> Iterator[Row]:
    n = TILES_N
    for kernel, published in kernels:
        args = [np.int32(n), *[4 * n * 32] * arrays, 4 * n * n]
        us = time("v100", TILES, kernel, (n // 32, n // 32, 1), (32, 32, 1), args).us
        yield Row(kernel, published, 4 * (2 * 32 * n + n * n) / us / 1e3, "GB/s", absolute=False)


@experiment(
    "C = A B, inner size 32: from global memory, A through shared memory, both through it",
    "v100",
    f'{GUIDE}, "Shared Memory in Matrix Multiplication (C=AB)", its table',
)
def tiles() -> Iterator[Row]:
    yield from _tiles((("simple", 119.9), ("tile_of_a", 144.4), ("tiles_of_both", 195.5)), 2)


@experiment(
    "C = A A^T, inner size 32: strided loads, tiles, tiles without bank conflicts",
    "v100",
    f'{GUIDE}, "Shared Memory in Matrix Multiplication (C=AA^T)", its table',
)
def tiles_transposed() -> Iterator[Row]:
    yield from _tiles((("square_simple", 12.8), ("square_tiled", 140.2), ("square_padded", 199.4)), 1)


@experiment(
    "copy with its start off by one float",
    "v100",
    f'{GUIDE}, "Effects of Misaligned Accesses": about 790 GB/s and 9/10',
)
def misaligned() -> Iterator[Row]:
    n = 1 << 24
    for offset, published in ((1, 711.0), (0, 790.0)):
        args = [np.int32(offset), 4 * n + 128, 4 * n + 128]
        us = time("v100", MEMORY, "offset_copy", (n // 256, 1, 1), (256, 1, 1), args).us
        yield Row(f"offset {offset}", published, 8 * n / us / 1e3, "GB/s")


NO_GAIN = "reported as 0 to +7 % where warps enough hide latency already; no document to cite"


def _double_buffering(card: str) -> Iterator[Row]:
    n = 2048
    for kernel, published in (("one_buffer", 1.0), ("two_buffers", 1.035)):
        us = time(card, PIPELINE, kernel, (128, 128, 1), (16, 16, 1), [np.int32(n), 4 * n * n, 4 * n * n, 4 * n * n]).us
        yield Row(kernel, published, 2 * n**3 / us / 1e3, "GFLOP/s", absolute=False)


@experiment("cp.async double buffering, many warps", "l4", NO_GAIN)
def double_buffering_l4() -> Iterator[Row]:
    yield from _double_buffering("l4")


@experiment("cp.async double buffering, many warps", "rtx4090", NO_GAIN)
def double_buffering_4090() -> Iterator[Row]:
    yield from _double_buffering("rtx4090")


@experiment("copies between host and device", "t4", "reported of bandwidthTest on T4; no document to cite")
def copies() -> Iterator[Row]:
    card, n = devices.CARDS["t4"], 64 << 20
    for what, kind, pageable, published in (
        ("pageable to host", "d2h", True, 1.58),
        ("pageable to device", "h2d", True, 3.96),
        ("pinned to device", "h2d", False, 12.18),
        ("pinned to host", "d2h", False, 13.01),
    ):
        yield Row(what, published, n / clock.copy_us(card, kind, n, pageable) / 1e3, "GB/s")


@experiment(
    "copies between two H100 over NVLink: without, with peer access",
    "h100",
    "p2pBandwidthLatencyTest on H100 SXM, https://github.com/NVIDIA/nccl/issues/1264",
)
def peers_nvlink() -> Iterator[Row]:
    card, n = devices.CARDS["h100"], 256 << 20
    for what, route, published in (("without", "staged", 37.0), ("with", "nvlink", 376.0)):
        yield Row(what, published, n / clock.copy_us(card, "p2p", n, False, route) / 1e3, "GB/s")


@experiment(
    "copies between two cards over PCIe and the host bridge: with, without peer access",
    "l4",
    "p2pBandwidthLatencyTest over PCIe 4.0, by PHB, https://github.com/NVIDIA/nccl/issues/814",
)
def peers_pcie() -> Iterator[Row]:
    card, n = devices.CARDS["l4"], 256 << 20
    for what, route, published in (("with", "bridge", 9.9), ("without", "staged", 22.0)):
        yield Row(what, published, n / clock.copy_us(card, "p2p", n, False, route) / 1e3, "GB/s")


@experiment(
    "y = x + y on 8 MB of managed memory: on demand, prefetched",
    "t4",
    "RTX 2060, whose memory is as fast: 2.86 ms and 48.6 us for the kernel of M. Harris, An Even Easier Introduction to CUDA",
)
def managed() -> Iterator[Row]:
    n = 1 << 20
    us = time("t4", MEMORY, "add", (n // 256, 1, 1), (256, 1, 1), [np.int32(n), 4 * n, 4 * n]).us
    faults = paging.fault_us(devices.CARDS["t4"], 8 * n)
    yield Row("on demand", 1e3 / 2860, 1e3 / (us + faults), "1/ms", absolute=False)
    yield Row("prefetched", 1e3 / 48.6, 1e3 / us, "1/ms", absolute=False)


@experiment(
    "y = x + y of 8 MiB: one thread, one block, all blocks",
    "t4",
    "M. Harris, An Even Easier Introduction to CUDA (Updated), developer.nvidia.com/blog/even-easier-introduction-cuda",
)
def add() -> Iterator[Row]:
    n = 1 << 20
    for what, blocks, threads, published in (
        ("one thread", 1, 1, 91_811.2),
        ("one block", 1, 256, 2_049.0),
        ("4096 blocks", n // 256, 256, 47.52),
    ):
        us = time("t4", MEMORY, "add", (blocks, 1, 1), (threads, 1, 1), [np.int32(n), 4 * n, 4 * n]).us
        yield Row(what, 1e3 / published, 1e3 / us, "1/ms")


@cache
def _host() -> dict[str, list[float]]:
    """ms of the program in host.py, in a process that is a T4: it has four streams and works chunk by chunk."""
    command = [sys.executable, "-m", "tests.regression.host", "t4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, cwd=HERE.parent.parent)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


OVERLAP = "program of M. Harris, How to Overlap Data Transfers in CUDA C/C++ (2012), developer.nvidia.com/blog"


@experiment(
    "copies and kernels in four streams",
    "t4",
    f"{OVERLAP}; 3.03 ms and 1.82 ms on T4, of which the copies alone are 2.67",
)
def overlap() -> Iterator[Row]:
    one, chunks, _ = _host()["pinned"]
    yield Row("one stream", 1 / 3.03, 1 / one, "1/ms")
    yield Row("four streams", 1 / 1.82, 1 / chunks, "1/ms")


@experiment("the same from pageable memory", "t4", f"{OVERLAP}: the host memory must be pinned memory; no gain without")
def overlap_pageable() -> Iterator[Row]:
    one, chunks, stages = _host()["pageable"]
    yield Row("one stream", 1.0, 1 / one, "1/ms", absolute=False)
    yield Row("four, chunk by chunk", 1.0, 1 / chunks, "1/ms", absolute=False)
    yield Row("four, stage by stage", 1.0, 1 / stages, "1/ms", absolute=False)
