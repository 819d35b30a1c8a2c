"""The published experiments: what was measured, where it was published, and what the clock says of the same program."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from grader.vgpu import devices
from grader.vgpu.driver import clock, paging

from .harness import HERE, time

GEMM, MEMORY, PIPELINE = ((HERE / name).read_text() for name in ("gemm.cu", "memory.cu", "pipeline.cu"))


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
    """Rows that belong together: their order is published, and the ratios of neighbours."""

    name: str
    device: str
    source: str
    run: Callable[[], Iterator[Row]]
    descending: bool = False  # the figures are times


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
    "cycles of the L1 a load of a warp takes, by stride", "a100", "published microbenchmark of L1-hit loads on A100"
)
def l1_stride() -> Iterator[Row]:
    for stride in (1, 2, 4, 8, 16, 32):
        few, many = (
            time(
                "a100", MEMORY, "l1_stride", (1, 1, 1), (1024, 1, 1), [np.int32(stride), np.int32(n), 1 << 20, 1 << 20]
            ).cycles
            for n in (16, 48)
        )
        yield Row(f"{stride} floats", stride, (many - few) / (32 * 8 * 32), "cycles")


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


@experiment("tiles in shared memory against loads from global memory", "v100", "published matrix product on V100: 1.2x")
def shared_tile() -> Iterator[Row]:
    n = 2048
    for kernel, published in (("coalesced", 1.0), ("tiled", 1.2)):
        us = time("v100", GEMM, kernel, (64, 64, 1), (32, 32, 1), [np.int32(n), 4 * n * n, 4 * n * n, 4 * n * n]).us
        yield Row(kernel, published, 2 * n**3 / us / 1e3, "GFLOP/s", absolute=False)


def _double_buffering(card: str) -> Iterator[Row]:
    n = 2048
    for kernel, published in (("one_buffer", 1.0), ("two_buffers", 1.035)):
        us = time(card, PIPELINE, kernel, (128, 128, 1), (16, 16, 1), [np.int32(n), 4 * n * n, 4 * n * n, 4 * n * n]).us
        yield Row(kernel, published, 2 * n**3 / us / 1e3, "GFLOP/s", absolute=False)


@experiment("cp.async double buffering, many warps", "l4", "published: 0 to +7 %")
def double_buffering_l4() -> Iterator[Row]:
    yield from _double_buffering("l4")


@experiment("cp.async double buffering, many warps", "rtx4090", "published: 0 to +7 %")
def double_buffering_4090() -> Iterator[Row]:
    yield from _double_buffering("rtx4090")


@experiment("copies between host and device", "t4", "published bandwidth test on T4")
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
    "published p2pBandwidthLatencyTest on H100 SXM",
)
def peers_nvlink() -> Iterator[Row]:
    card, n = devices.CARDS["h100"], 256 << 20
    for what, direct, published in (("without", False, 37.0), ("with", True, 376.0)):
        yield Row(what, published, n / clock.copy_us(card, "p2p", n, False, direct) / 1e3, "GB/s")


@experiment(
    "copies between two cards over PCIe: with, without peer access", "l4", "published p2pBandwidthLatencyTest, PCIe 4.0"
)
def peers_pcie() -> Iterator[Row]:
    card, n = devices.CARDS["l4"], 256 << 20
    for what, direct, published in (("with", True, 9.9), ("without", False, 22.0)):
        yield Row(what, published, n / clock.copy_us(card, "p2p", n, False, direct) / 1e3, "GB/s")


@experiment(
    "a kernel on 8 MB of managed memory: prefetched, on demand (1/us)", "t4", "published on RTX 2060: 48.6 us, 2.86 ms"
)
def managed() -> Iterator[Row]:
    n = 1 << 20
    us = time("t4", MEMORY, "copy", (n // 256, 1, 1), (256, 1, 1), [np.int32(n), 4 * n, 4 * n]).us
    faults = paging.fault_us(devices.CARDS["t4"], 8 * n)
    yield Row("on demand", 1e3 / 2860, 1e3 / (us + faults), "1/ms", absolute=False)
    yield Row("prefetched", 1e3 / 48.6, 1e3 / us, "1/ms", absolute=False)
