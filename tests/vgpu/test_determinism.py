"""The same program gives the same bytes, findings, counts and modelled times in every run, with one worker thread or two.

Each run is a process of its own, with hashes, addresses and interpreter state of its own.
"""

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import hashlib, importlib, json, sys
from grader import vgpu
vgpu.activate("a100")
launch = importlib.import_module("grader.vgpu.machine.launch")
launch.WORKERS = int(sys.argv[1])
import numpy as np
from cuda.bindings import driver as cu
from numba import cuda, float32
from grader.kit.copies import cp_async, cp_async_commit
from grader.vgpu.profile import collect

N, BLOCK = 1 << 16, 256
rng = np.random.default_rng(7)
counts, workers, elapsed = [], set(), []
run = launch._run
launch._run = lambda worker, *rest: (workers.add(int(worker.schedule[1])), run(worker, *rest))[1]

@cuda.jit
def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]

@cuda.jit
def block_sums(x, out):
    s = cuda.shared.array(BLOCK, float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    k = BLOCK // 2
    while k > 0:
        if t < k:
            s[t] += s[t + k]
        cuda.syncthreads()
        k //= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]

@cuda.jit
def uneven(x, turns):
    i = cuda.grid(1)
    for k in range(turns[i // 32]):
        x[i] = x[i] * float32(1.001) + float32(k)

@cuda.jit
def total(x, out):
    cuda.atomic.add(out, 0, x[cuda.grid(1)])

@cuda.jit
def speak(x):
    i = cuda.grid(1)
    if i % 8192 == 0:
        print("element", i)

@cuda.jit
def racy(x, out):
    i = cuda.grid(1)
    out[i] = x[i]
    out[(i + 1) % out.size] = x[i]

@cuda.jit
def no_wait(x, out):
    s = cuda.shared.array(BLOCK, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    cp_async(s, t, x, i, 4)
    cp_async_commit()
    cuda.syncthreads()
    out[i] = s[t]

@cuda.jit
def no_barrier(x, out):
    s = cuda.shared.array(BLOCK, float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    out[cuda.grid(1)] = s[BLOCK - 1 - t]

@cuda.jit
def nobody_wrote(out):
    s = cuda.shared.array(BLOCK, float32)
    out[cuda.grid(1)] = s[cuda.threadIdx.x]

def ok(result):
    assert int(result[0]) == 0, result
    return result[1] if len(result) == 2 else result[1:]

def streams(x, grid):
    "Two streams that copy and compute, and a third that does not wait for them; us between events."
    queues, events = [cuda.stream() for _ in range(3)], [cuda.event() for _ in range(2)]
    pinned, parts = cuda.pinned_array(N, np.float32), [cuda.device_array(N, np.float32) for _ in range(2)]
    pinned[:] = data
    events[0].record(queues[0])
    for turn in range(3):
        for queue, part in zip(queues, parts):
            part.copy_to_device(pinned, stream=queue)
            saxpy[grid, BLOCK, queue](float32(turn), part, part)
    events[1].record(queues[0])
    saxpy[grid, BLOCK, queues[2]](float32(2), parts[0], parts[1])
    cuda.synchronize()
    return cuda.event_elapsed_time(*events), parts

def graph(x, y, grid):
    "A graph of two kernels and a copy, launched three times."
    queue = cuda.stream()
    handle = cu.CUstream(int(queue.handle))
    z = cuda.device_array(N, np.float32)
    ok(cu.cuStreamBeginCapture(handle, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
    saxpy[grid, BLOCK, queue](float32(0.5), x, y)
    z.copy_to_device(y, stream=queue)
    saxpy[grid, BLOCK, queue](float32(0.25), z, x)
    built = ok(cu.cuGraphInstantiate(ok(cu.cuStreamEndCapture(handle)), 0))
    for _ in range(3):
        ok(cu.cuGraphLaunch(built, handle))
    queue.synchronize()
    return [z]

def managed(grid):
    "The host and the device touch pages in turn."
    pages = cuda.managed_array(4 * N, np.float32)
    pages[:] = 1
    saxpy[4 * grid, BLOCK](float32(3), pages, pages)
    cuda.synchronize()
    pages[:: 1 << 14] += 1
    saxpy[2 * grid, BLOCK](float32(3), pages, pages)
    cuda.synchronize()
    return [np.array(pages.tolist(), np.float32)]

vgpu.on_launch(lambda kernel, work, result, span: counts.append([
    int(result.counters.runs.sum()), int(result.counters.sites.sum()), result.counters.work_max]))
data = rng.random(N, np.float32)
digest = hashlib.sha256()
for watched in (False, True):
    vgpu.options().racecheck = vgpu.options().initcheck = watched
    x, y = cuda.to_device(data), cuda.to_device(data[::-1].copy())
    out, sums = cuda.to_device(np.zeros(N // BLOCK, np.float32)), cuda.to_device(np.zeros(1, np.float32))
    grid = N // BLOCK
    saxpy[grid, BLOCK](float32(2), x, y)
    block_sums[grid, BLOCK](y, out)
    uneven[grid, BLOCK](x, cuda.to_device(rng.integers(1, 40, N // 32)))
    total[grid, BLOCK](x, sums)
    speak[grid, BLOCK](x)
    if watched:
        racy[grid, BLOCK](x, y)
        no_wait[grid, BLOCK](x, y)
        no_barrier[grid, BLOCK](x, y)
        nobody_wrote[grid, BLOCK](y)
    us, parts = streams(x, grid)
    elapsed.append(us)
    for array in (x, y, out, sums, *parts, *graph(x, y, grid), *managed(grid)):
        digest.update((array if type(array) is np.ndarray else array.copy_to_host()).tobytes())
with collect() as profiles:
    block_sums[grid, BLOCK](x, out)
    total[grid, BLOCK](x, sums)
    uneven[grid, BLOCK](x, cuda.to_device(rng.integers(1, 40, N // 32)))
print(json.dumps({
    "bytes": digest.hexdigest(), "workers": max(workers), "counts": counts, "elapsed": elapsed,
    "findings": [[f.tool, repr(f)] for f in vgpu.findings()],
    "spans": [[s.name, s.engine, s.stream, s.start_us, s.end_us, s.nbytes] for s in vgpu.spans()],
    "calls": [[s.name, s.start_us, s.end_us] for s in vgpu.calls()],
    "profiles": [str(p) for p in profiles],
}))
"""


def run(workers: int, seed: int) -> dict:
    """What the program says of itself, and what its kernels printed."""
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(workers)]
    env = {**os.environ, "PYTHONHASHSEED": str(seed)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    *printed, last = done.stdout.splitlines()
    return json.loads(last) | {"printed": printed}


@pytest.fixture(scope="module")
def one() -> dict:
    """With one worker thread."""
    return run(1, seed=0)


def test_the_program_has_something_of_everything(one):
    assert one["workers"] == 1
    assert one["printed"][:8] == [f"element {8192 * k}" for k in range(8)]
    assert {"racecheck", "initcheck"} == {finding[0] for finding in one["findings"]}
    assert len(one["findings"]) >= 5  # no barrier, no wait, nothing written, and of two launches and of two streams
    assert {"h2d", "d2h", "compute", "faults", "host faults"} <= {span[1] for span in one["spans"]}
    assert len(one["profiles"]) == 3 and all("Sectors" in text or "sectors" in text for text in one["profiles"])
    assert one["elapsed"][0] > 0


@pytest.mark.parametrize("seed", [1, 4242])
def test_two_worker_threads_do_the_same_every_time(one, seed):
    two = run(2, seed)
    assert two["workers"] == 2
    for what in one.keys() - {"workers"}:
        assert one[what] == two[what], what
