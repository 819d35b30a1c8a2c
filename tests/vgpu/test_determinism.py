"""The same program gives the same bytes, findings, counts and modelled times in every run, with one worker thread or two."""

import json
import subprocess
import sys

PROGRAM = """
import hashlib, importlib, json, sys
from grader import vgpu
vgpu.activate("a100")
launch = importlib.import_module("grader.vgpu.machine.launch")
launch.WORKERS = int(sys.argv[1])
import numpy as np
from numba import cuda, float32

N, BLOCK = 1 << 16, 256
rng = np.random.default_rng(7)
counts, workers = [], set()
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
    for array in (x, y, out, sums):
        digest.update(array.copy_to_host().tobytes())
print(json.dumps({
    "bytes": digest.hexdigest(), "workers": max(workers), "counts": counts,
    "findings": [[f.tool, f.kind, f.message, f.line, f.count] for f in vgpu.findings()],
    "spans": [[s.name, s.start_us, s.end_us] for s in vgpu.spans()],
}))
"""


def run(workers: int) -> tuple[dict, str]:
    """What the program says of itself, and what its kernels printed."""
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(workers)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *printed, last = done.stdout.splitlines()
    return json.loads(last), "\n".join(printed)


def test_one_worker_and_two_and_two_again_do_the_same():
    (one, said), (two, said_by_two), again = run(1), run(2), run(2)
    assert (one.pop("workers"), two.pop("workers")) == (1, 2)
    assert said == said_by_two
    assert said.splitlines()[:8] == [f"element {8192 * k}" for k in range(8)]
    assert one["findings"]
    for what in one:
        assert one[what] == two[what], what
    again[0].pop("workers")
    assert again == (two, said_by_two)
