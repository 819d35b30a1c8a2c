"""python -m tests.bench.profile: what seeing costs, as ratios of one run: the clock, and profile mode, against a plain run.

The 18 core kernels of the course, from the tests' collection, at sizes of half a million threads, the matrix products' of 256 rows. A plain run has no
sanitizers, no clock and no counters. The clock's run is a launch as the clock has never seen it; the same launch again
costs it next to nothing. Profile mode counts every block, and makes the profile. CPU seconds of this process are used,
since they are steadier than wall time on a shared machine; the best of a few runs of each.
"""

import math
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from grader import vgpu

vgpu.activate("a100")
vgpu.options().racecheck = vgpu.options().initcheck = False
sys.path.insert(0, str(Path(__file__).parents[1] / "vgpu"))

from course import asynchronous, elementwise, grids, reductions  # noqa: E402
from numba import cuda  # noqa: E402

from grader.vgpu.machine import LaunchOptions, launch  # noqa: E402
from grader.vgpu.model import estimate  # noqa: E402
from grader.vgpu.profile import profile  # noqa: E402

AT_MOST, REPEATS = 3.0, 5
N, SIDE, T = 1 << 19, 1024, 256


def floats(*shape):
    return cuda.to_device(np.random.default_rng(0).random(shape, np.float32))


def small_ints(n: int, dtype=np.int32):
    return cuda.to_device(np.random.default_rng(0).integers(0, 20, n).astype(dtype))


def zeros(*shape, dtype=np.float32):
    return cuda.to_device(np.zeros(shape, dtype))


def launches():
    """name -> (kernel, grid, block, arguments)."""
    x, y, a, b, c = floats(N), zeros(N), floats(SIDE, SIDE), floats(SIDE, SIDE), zeros(SIDE, SIDE)
    m, k, p = floats(256, 256), floats(256, 256), zeros(256, 256)
    square = (SIDE // 16, SIDE // 16), (16, 16)
    return {
        "saxpy": (elementwise.saxpy_kernel, N // T, T, (N, np.float32(2), x, y)),
        "saxpy, grid stride": (elementwise.saxpy_stride_kernel, 128, T, (floats(1), x, y)),
        "add, 2-D": (elementwise.add_2d_kernel, *square, (a, b, c)),
        "reduction, shared memory": (reductions.reduce_shared_kernel, N // T, T, (x, zeros(N // T))),
        "reduction, shuffles": (reductions.reduce_shuffle_kernel, 64, T, (x, zeros(1))),
        "matmul, naive": (cuda.jit(grids.matmul_naive), (16, 16), (16, 16), (m, k, p)),
        "matmul, tiled": (grids.matmul_tiled_kernel, (16, 16), (16, 16), (m, k, p)),
        "matmul, register tiles": (grids.matmul_register_kernel, (4, 4), T, (m, k, p)),
        "transpose, naive": (grids.transpose_kernel, *square, (a, c)),
        "transpose, tiled": (grids.transpose_tiled_kernel, (SIDE // 32, SIDE // 32), (32, 8), (a, c)),
        "stencil": (grids.stencil_kernel, N // T, T, (x, y, np.float32(0.3))),
        "stencil, 2-D": (grids.stencil_2d_kernel, *square, (a, c)),
        "histogram, global memory": (reductions.histogram_global_kernel, N // T, T, (small_ints(N), zeros(20, dtype=np.int32))),
        "histogram, shared memory": (reductions.histogram_shared_kernel, 64, T, (small_ints(N, np.uint8), zeros(T, dtype=np.int32))),
        "scan, two buffers": (reductions.scan_kernel, N // T, T, (small_ints(N), zeros(N, dtype=np.int32))),
        "scan, shuffles": (reductions.scan_shuffle_kernel, N // 1024, 1024, (x, y, zeros(N // 1024))),
        "compaction": (reductions.compact_kernel, N // T, T, (small_ints(N), zeros(40 * N, dtype=np.int32), zeros(1, dtype=np.int32))),
        "cp.async, four stages": (asynchronous.four_stage_kernel, 256, T, (x, zeros(256 * T), 8)),
    }  # fmt: skip


def best(run) -> float:
    """CPU seconds of the fastest of a few runs."""
    took = math.inf
    for _ in range(REPEATS):
        start = time.process_time()
        run()
        took = min(took, time.process_time() - start)
    return took


def ratios(kernel, grid, block, args) -> tuple[float, float, float]:
    """(seconds of a plain run, clock / plain, profile / plain)."""
    seen = []

    def keep(code, work, result, span):
        seen.append((code, work))

    vgpu.on_launch(keep)
    kernel[grid, block](*args)
    cuda.synchronize()
    from grader.vgpu.driver.state import driver

    driver.observers.remove(keep)
    (code, work) = seen[-1]
    facts, shared = work.kernel.facts, work.kernel.static_shared + work.shared
    (card,) = vgpu.active()

    def run(**options):
        options = LaunchOptions(racecheck=False, initcheck=False, workers=1, **options)
        return launch(code, work.grid, work.block, work.args, work.shared, options)

    def clock():
        estimate._known.pop(code, None)
        estimate.kernel_time(card, code, work.grid, work.block, shared, facts.registers, run(), work.kernel.mix)

    def counters():
        estimate._known.pop(code, None)
        profile(run(profile=True), card, code, work.grid, work.block, shared, facts.registers, work.kernel.mix)

    for warm in (clock, counters):
        warm()
    plain = best(lambda: run(trace=False))
    return plain, best(clock) / plain, best(counters) / plain


def main() -> int:
    warnings.simplefilter("ignore")
    found = {}
    print(f"{'':26} {'plain':>9} {'clock':>7} {'profile':>8}")
    for name, given in launches().items():
        found[name] = ratios(*given)
        plain, clock, counters = found[name]
        print(f"{name:26} {plain * 1e3:6.2f} ms {clock:6.2f}x {counters:7.2f}x", flush=True)
    means = [math.exp(np.mean([math.log(row[k]) for row in found.values()])) for k in (1, 2)]
    print(f"{'geometric mean':26} {'':9} {means[0]:6.2f}x {means[1]:7.2f}x   (at most {AT_MOST:.0f}x)")
    return int(max(means) > AT_MOST)


if __name__ == "__main__":
    sys.exit(main())
