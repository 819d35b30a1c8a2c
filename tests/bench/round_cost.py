"""python -m tests.bench.round_cost: what a round of timing costs the host, and how many fit into a grading's time.

A round is nine timed runs. For each size of a float32 map (one input, one output): drawing three inputs, three answers,
frames to and from a process in the place of the one that holds the GPU, comparing nine outputs. CPU seconds of both
processes, which follow one another; no GPU is used. For the runs themselves GPU_S is added, and the copies over PCIe.
"""

import os
import subprocess
import sys
import time

import numpy as np

from grader import problems
from grader.devices import Run, parcel
from grader.measure import MEASURED
from grader.problems.model import Tolerance
from grader.program import Buffer, Program
from grader.rules.compare import compare
from grader.sandbox import wire

PROBLEM = problems.get("00_grid_stride")
SIZES = [1 << k for k in (14, 16, 18, 20, 22, 24)]
REPEATS, SIDES = MEASURED.repeats, 3
GPU_S = REPEATS * (3e-3 + 9e-3 + 3e-3)  # a reference and a submission of 3 ms, the sizing's aim, a baseline of 9 ms
PCIE = (
    25e9  # bytes/s: PCIe 4.0 x16 carries 31.5e9 raw (https://pcisig.com/faq?field_category_value%5B%5D=pci_express_4.0)
)
LIMITS = {"max_header": 1 << 24, "max_blobs": 1 << 36}
ROUNDS = 3
ANYTHING = Tolerance(1.0, 1e9)


def main() -> None:
    """Print the table."""
    print(
        f"{'floats':>9} {'inputs':>8} {'answers':>8} {'frames':>8} {'compare':>8} {'round':>8}  rounds in {MEASURED.seconds:g} s"
    )
    for n in SIZES:
        parts = cost(n)
        copies = SIDES * REPEATS * 3 * 4 * n / PCIE  # the input there, input and output back, for every run
        whole = sum(parts) + copies + GPU_S
        words = " ".join(f"{1e3 * seconds:6.1f}ms" for seconds in (*parts, whole))
        print(f"{n:>9} {words}  {min(MEASURED.seconds / whole, MEASURED.most_rounds):.0f}", flush=True)


def cost(n: int) -> tuple[float, ...]:
    """CPU seconds a round: inputs, answers, frames, compare. The first round of several does not count."""
    rng, sizes, took, others = np.random.default_rng(0), {"n": n}, [], []
    buffers = [Buffer(4 * n, "device", role, name, "<f4", (n,)) for name, role in (("x", "input"), ("y", "output"))]
    programs = [Program.make(buffers, [b".version %d" % side], []) for side in range(SIDES)]
    with subprocess.Popen([sys.executable, "-m", "tests.bench.round_cost", "echo"], stdin=-1, stdout=-1) as child:
        for _ in range(1 + ROUNDS):
            marks = [time.process_time()]
            inputs = [PROBLEM.inputs(rng, sizes) for _ in range(REPEATS)]
            marks.append(time.process_time())
            answers = [PROBLEM.reference(x, sizes)["y"] for x in inputs]
            marks.append(time.process_time())
            runs = [Run(program, x, timed=True) for x in inputs for program in programs]
            for piece in wire.pack(*parcel.pack(runs)):
                child.stdin.write(piece)
            child.stdin.flush()
            reader = wire.Reader(**LIMITS)
            while (frame := reader.next()) is None:
                reader.feed(os.read(child.stdout.fileno(), 1 << 20))
            outputs = [np.frombuffer(blob, "f4") for blob in frame[1]]
            marks.append(time.process_time())
            for run, output in enumerate(outputs):  # the inputs come back: wrong outputs, so the comparison is told to
                compare({"y": answers[run // SIDES]}, {"y": output}, ANYTHING, {}, 0)  # accept anything
            marks.append(time.process_time())
            took.append(np.diff(marks))
            others.append(frame[0]["cpu"])
        child.stdin.close()
    parts = np.mean(took[1:], axis=0)
    parts[2] += (others[-1] - others[0]) / ROUNDS
    return tuple(parts)


def echo() -> None:
    """Answer every request with each run's input."""
    reader = wire.Reader(**LIMITS)
    while data := os.read(0, 1 << 20):
        reader.feed(data)
        while (frame := reader.next()) is not None:
            outputs = [run["inputs"]["x"] for run in parcel.unpack_request(*frame)]
            for piece in wire.pack({"cpu": time.process_time()}, outputs):
                view = memoryview(piece)
                while view:
                    view = view[os.write(1, view) :]


if __name__ == "__main__":
    echo() if "echo" in sys.argv else main()
