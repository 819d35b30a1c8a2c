"""python -m tests.bench.machine: how fast the virtual GPU is, as ratios inside one run.

* time from 2**14 to 2**22 threads, and its departure from a straight line;
* two worker threads against one, on a grid of 256 blocks;
* naive matmul 512**3 against the same loops compiled by numba for the CPU, on one thread;
* a kernel's first launch, compiled and from the disk cache.

CPU seconds of this process are used where one thread works, since they are steadier than wall time on a shared machine.
"""

import tempfile
import time
import warnings

import numpy as np

from grader import vgpu

vgpu.activate("a100")
vgpu.options().racecheck = vgpu.options().initcheck = False

import numba  # noqa: E402
from numba import cuda, float32  # noqa: E402

from grader.vgpu.machine import launch as machine  # noqa: E402


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


def best(run, repeats: int, clock) -> float:
    out = float("inf")
    for _ in range(repeats):
        start = clock()
        run()
        cuda.synchronize()
        out = min(out, clock() - start)
    return out


def scaling():
    sizes = [1 << k for k in range(14, 23, 2)]
    times = []
    machine.WORKERS = 1
    for n in sizes:
        x = cuda.to_device(np.ones(n, np.float32))
        y = cuda.to_device(np.ones(n, np.float32))
        saxpy[n // 256, 256](float32(2), x, y)
        times.append(best(lambda n=n, x=x, y=y: saxpy[n // 256, 256](float32(2), x, y), 5, time.process_time))
    per = [t / n for t, n in zip(times, sizes, strict=True)]
    fixed = (times[0] * sizes[1] - times[1] * sizes[0]) / (sizes[1] - sizes[0])  # what a launch costs whatever its size
    line = [(t - fixed) / n for t, n in zip(times, sizes, strict=True)]
    print("threads       " + "".join(f"{n:>12,}" for n in sizes))
    print("ns a thread   " + "".join(f"{p * 1e9:12.2f}" for p in per))
    print(
        f"less {fixed * 1e6:5.0f} us "
        + "".join(f"{p * 1e9:12.2f}" for p in line)
        + f"   spread {max(line) / min(line) - 1:.0%}"
    )


def two_threads():
    x = cuda.to_device(np.ones(256 * 256, np.float32))
    y = cuda.device_array_like(x)
    got = []
    for workers in (1, 2):
        machine.WORKERS = workers
        busy[256, 256](x, y, 2000)
        got.append(best(lambda: busy[256, 256](x, y, 2000), 5, time.perf_counter))
    print(
        f"256 blocks: one worker {got[0] * 1e3:.1f} ms, two {got[1] * 1e3:.1f} ms of wall time: {got[0] / got[1]:.2f}x"
    )


def against_cpu():
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
    print(
        f"naive matmul {n}**3: numba for the CPU {cpu * 1e3:.0f} ms, virtual GPU {gpu * 1e3:.0f} ms: {gpu / cpu:.2f}x"
    )


def main():
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory():
        scaling()
        two_threads()
        against_cpu()


if __name__ == "__main__":
    main()
