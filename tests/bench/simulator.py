"""python -m tests.bench.simulator: the virtual GPU against numba's simulator, same programs, same machine, one run.

Prints seconds a launch (the best of several) and their ratios. The simulator's block sum takes about half a minute.
"""

import json
import os
import subprocess
import sys


def measure(what: str, repeats: int) -> dict:
    env = dict(os.environ)
    if what == "simulator":
        env["NUMBA_ENABLE_CUDASIM"] = "1"
    command = [sys.executable, "-m", "tests.bench.programs", what, str(repeats)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{what}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main():
    off, on = measure("off", 200), measure("on", 200)
    simulated = measure("simulator", 1)
    print(
        f"{'16,384 threads':16} {'simulator':>12} {'virtual GPU':>14} {'ratio':>9} {'sanitizers on':>16} {'ratio':>9}"
    )
    for name, slow in simulated.items():
        assert slow["right"] and off[name]["right"] and on[name]["right"], f"{name}: wrong result"
        s, a, b = slow["seconds"], off[name]["seconds"], on[name]["seconds"]
        print(f"{name:16} {s:10.2f} s {a * 1e3:11.3f} ms {s / a:8,.0f}x {b * 1e3:13.3f} ms {s / b:8,.0f}x")


if __name__ == "__main__":
    main()
