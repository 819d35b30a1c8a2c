"""python -m tests.bench.machine [PART...]: how fast the virtual GPU is, as ratios inside one run, against its bars.

sanitizers   all of them against none: slow-down of 18 core kernels, geometric mean (at most 3x)
matmul       naive, 512**3, against the same loops compiled by numba for the CPU, on one thread (at most 5x)
threads      time from 2**14 to 2**22 threads: departure from a straight line (at most 15 %)
workers      two against one on a grid of 256 blocks (at least 1.8x)
first        what a kernel's first launch adds to numba's compile time, median of the course's kernels: compiled (at most
             0.5 s) and from the disk cache (at most 0.05 s)

CPU seconds of this process are used where one thread works, since they are steadier than wall time on a shared machine.
"""

import importlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from statistics import median

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "vgpu"))

from grader import vgpu

vgpu.activate("a100")

import numba  # noqa: E402  (after the device has been chosen)
from course.run import load  # noqa: E402
from numba import cuda, float32  # noqa: E402

import grader.vgpu.machine  # noqa: E402
from grader.vgpu.machine import memory as machine_memory  # noqa: E402

machine = importlib.import_module("grader.vgpu.machine.launch")  # the name in the package is the function

FEW = 4 * 256  # threads: the blocks that are counted and traced in a launch of any size
CORE = (
    "saxpy", "naive_matmul", "tiled_matmul", "matmul_with_register_tiles", "naive_transpose", "tiled_transpose",
    "stencil_with_a_halo", "stencil_in_two_dimensions", "heat_in_three_dimensions", "convolution_in_two_dimensions",
    "reduction_in_shared_memory", "reduction_by_shuffles", "histogram_in_global_memory", "histogram_in_shared_memory",
    "scan_with_two_buffers", "scan_by_shuffles", "softmax", "bitonic_sort",
)  # fmt: skip


@cuda.jit
def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]


@cuda.jit
def matmul(a, b, c):
    i, j = cuda.grid(2)
    if i < c.shape[0] and j < c.shape[1]:
        s = float32(0)
        for k in range(a.shape[1]):
            s += a[i, k] * b[k, j]
        c[i, j] = s


@cuda.jit
def busy(x, y, n):
    i = cuda.grid(1)
    v = x[i]
    for k in range(n):
        v = v * float32(1.0001) + float32(k)
    y[i] = v


@numba.njit
def matmul_cpu(a, b, c):
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            s = np.float32(0)
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, j]
            c[i, j] = s


def watch(on: bool) -> None:
    """Switch the sanitizers of launches on or off."""
    vgpu.options().racecheck = vgpu.options().initcheck = on


def best(run, repeats: int, clock) -> float:
    out = float("inf")
    for _ in range(repeats):
        start = clock()
        run()
        cuda.synchronize()
        out = min(out, clock() - start)
    return out


def verdict(text: str, value: float, bar: float, at_least: bool = False) -> bool:
    """Print a figure beside its bar."""
    good = value >= bar if at_least else value <= bar
    print(
        f"{text:62} {value:8.3g}   ({'at least' if at_least else 'at most'} {bar:g}) {'' if good else '<-- missed'}",
        flush=True,
    )
    return good


class Compared:
    """In place of machine.launch: runs each launch with and without sanitizers, on the same data, and keeps the times.

    Timed are running the kernel and readying the shadows, not what a launch costs whatever it does: the course's kernels
    are small, and that would make the sanitizers look cheap.
    """

    def __init__(self):
        self.launch, self.parts = machine.launch, (machine._run, machine_memory.Memory.table)
        self.off = self.on = self.spent = 0.0

    def timed(self, function):
        def call(*args):
            start = time.process_time()
            try:
                return function(*args)
            finally:
                self.spent += time.process_time() - start

        return call

    def again(self, kernel, grid, block, args, shared, cooperative, watched: bool) -> float:
        """Seconds of the fastest of several launches; memory is as it was afterwards."""
        memory, times = kernel.module.memory, []
        kept = [(a, memory.view(a.address, a.nbytes).copy(), a.init) for a in memory.allocations]
        options = machine.LaunchOptions(racecheck=watched, initcheck=watched, cooperative=cooperative, workers=1)
        for _ in range(7):
            self.spent = 0.0
            self.launch(kernel, grid, block, args, shared=shared, options=options)
            times.append(self.spent)
            for allocation, contents, init in kept:
                memory.view(allocation.address, allocation.nbytes)[:] = contents
                allocation.init = None if init is None else init.copy()
        return min(times)

    def __call__(self, kernel, grid, block, args, shared=0, options=None):
        kernel.code()
        machine._run, machine_memory.Memory.table = map(self.timed, self.parts)
        try:
            self.off += self.again(kernel, grid, block, args, shared, options.cooperative, False)
            self.on += self.again(kernel, grid, block, args, shared, options.cooperative, True)
        finally:
            machine._run, machine_memory.Memory.table = self.parts
        return self.launch(kernel, grid, block, args, shared=shared, options=options)


def sanitizers() -> bool:
    watch(True)
    cases, ratios = load(), []
    print(f"{'core kernel':34} {'without':>10} {'with':>10}   sanitizers")
    for name in CORE:
        grader.vgpu.machine.launch = compared = Compared()
        try:
            cases[name].run()
            vgpu.finish()
        finally:
            grader.vgpu.machine.launch = compared.launch
        ratios.append(compared.on / compared.off)
        print(f"{name:34} {compared.off * 1e3:7.2f} ms {compared.on * 1e3:7.2f} ms {ratios[-1]:6.2f}x", flush=True)
    watch(False)
    return verdict("sanitizers: slow-down, geometric mean of 18", math.exp(sum(map(math.log, ratios)) / len(ratios)), 3)


def threads() -> bool:
    """The verdict is on threads that compute; beside it saxpy, whose small arrays fit a cache of the CPU."""
    sizes = [1 << k for k in range(14, 23, 2)]
    watch(False)
    machine.WORKERS = 1
    print("threads                     " + "".join(f"{n:>12,}" for n in sizes))
    fused = a_thread(sizes, lambda n, x, y: busy[n // 256, 256](x, y, 200))
    print("200 multiply-adds, ns each  " + "".join(f"{t * 1e9:12.2f}" for t in fused))
    copied = a_thread(sizes, lambda n, x, y: saxpy[n // 256, 256](float32(2), x, y))
    print("saxpy, ns each              " + "".join(f"{t * 1e9:12.2f}" for t in copied))
    return verdict("threads: spread of the time a thread", max(fused) / min(fused) - 1, 0.15)


def a_thread(sizes: list[int], launch) -> list[float]:
    """Seconds of processor time a thread, less what a launch of few threads takes."""
    arrays = {n: [cuda.to_device(np.ones(n, np.float32)) for _ in "xy"] for n in (FEW, *sizes)}
    times = dict.fromkeys(arrays, math.inf)
    for _ in range(20):  # the sizes take turns, so that a slow moment of the computer meets all of them
        for n, (x, y) in arrays.items():
            short = min(10, max(1, (1 << 20) // n))
            times[n] = min(times[n], best(lambda n=n, x=x, y=y: launch(n, x, y), short, time.process_time))
    fixed = times.pop(FEW)
    return [(times[n] - fixed) / (n - FEW) for n in sizes]


def workers() -> bool:
    watch(False)
    x = cuda.to_device(np.ones(256 * 256, np.float32))
    y = cuda.device_array_like(x)
    got = {1: math.inf, 2: math.inf}
    for _ in range(5):
        for count in got:
            machine.WORKERS = count
            spent = best(lambda: busy[256, 256](x, y, 12_000), 2, time.perf_counter)
            got[count] = min(got[count], spent)
    print(f"256 blocks: one worker {got[1] * 1e3:.1f} ms, two {got[2] * 1e3:.1f} ms of wall time")
    return verdict("workers: two against one", got[1] / got[2], 1.8, at_least=True)


def against_cpu() -> bool:
    watch(False)
    machine.WORKERS = 1
    n = 512
    rng = np.random.default_rng(1)
    a, b = rng.random((2, n, n), np.float32)
    c = np.zeros((n, n), np.float32)
    matmul_cpu(a, b, c)
    cpu = best(lambda: matmul_cpu(a, b, c), 3, time.process_time)
    da, db, dc = cuda.to_device(a), cuda.to_device(b), cuda.device_array((n, n), np.float32)
    matmul[(n // 16, n // 16), (16, 16)](da, db, dc)
    gpu = best(lambda: matmul[(n // 16, n // 16), (16, 16)](da, db, dc), 3, time.process_time)
    assert np.allclose(dc.copy_to_host(), c, rtol=1e-4)
    print(f"naive matmul {n}**3: numba for the CPU {cpu * 1e3:.0f} ms, virtual GPU {gpu * 1e3:.0f} ms")
    return verdict("matmul: against numba for the CPU", gpu / cpu, 5)


def first_launch() -> bool:
    with tempfile.TemporaryDirectory() as empty:
        env, runs = {**os.environ, "GRADER_CACHE_DIR": empty}, []
        for _ in range(2):
            command = [sys.executable, "-m", "tests.bench.first_launch"]
            done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
            runs.append(json.loads(done.stdout.splitlines()[-1]))
    cold, cached = runs
    print(f"first launches of {len(cold)} kernels: longest {cold[-1]:.2f} s compiled, {cached[-1]:.3f} s from the disk")
    good = verdict("first: added seconds, compiled, median", median(cold), 0.5)
    return verdict("first: added seconds, from the disk cache, median", median(cached), 0.05) and good


PARTS = {"sanitizers": sanitizers, "matmul": against_cpu, "threads": threads, "workers": workers, "first": first_launch}


def main(*names: str) -> int:
    """Exit status 0 when every bar is met."""
    warnings.simplefilter("ignore")
    before = machine.WORKERS
    good = True
    for name in names or PARTS:
        good = PARTS[name]() and good
        machine.WORKERS = before
    return int(not good)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
