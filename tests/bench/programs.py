"""Two kernels and their launches, as a student would write them: run in a process of their own by simulator.py.

python -m tests.bench.programs simulator|off|on REPEATS (off and on: the virtual GPU's race and init checks)
"""

import json
import sys
import time
import warnings

import numpy as np

DEVICE = sys.argv[1] if __name__ == "__main__" else "simulator"
if DEVICE != "simulator":
    from grader import vgpu

    vgpu.activate("a100")
    vgpu.options().racecheck = vgpu.options().initcheck = DEVICE == "on"

from numba import cuda, float32  # noqa: E402  (after the device has been chosen)

N, BLOCK = 16_384, 256


@cuda.jit
def vector_add(a, b, c):
    i = cuda.grid(1)
    if i < c.size:
        c[i] = a[i] + b[i]


@cuda.jit
def block_sum(x, out):
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


def best_of(repeats: int, launch) -> float:
    """Seconds of wall time of the fastest launch."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        launch()
        cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return best


def main(repeats: int) -> dict:
    """Seconds a launch of each kernel, and whether its result is right."""
    rng = np.random.default_rng(1)
    a, b = rng.random((2, N), np.float32)
    da, db = cuda.to_device(a), cuda.to_device(b)
    dc, dout = cuda.device_array(N, np.float32), cuda.device_array(N // BLOCK, np.float32)
    add = best_of(repeats, lambda: vector_add[N // BLOCK, BLOCK](da, db, dc))
    total = best_of(repeats, lambda: block_sum[N // BLOCK, BLOCK](da, dout))
    sums = a.reshape(-1, BLOCK).sum(1)
    return {
        "vector add": {"seconds": add, "right": bool(np.array_equal(dc.copy_to_host(), a + b))},
        "block sum": {"seconds": total, "right": bool(np.allclose(dout.copy_to_host(), sums, rtol=1e-4))},
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(main(int(sys.argv[2]))))
