"""Unit 01: what a kernel is bound by, from five figures of a profile."""

import numpy as np

from grader import rules
from grader.problems.inputs import near
from grader.problems.model import Array, Case, Kernel, Problem, Tolerance

MEMORY, COMPUTE, LATENCY = 1, 2, 3
BUSY = 0.6  # a unit is busy from this part of its peak on
LINE = 128  # bytes of a warp's load
CARDS = np.array([  # GB/s that device memory reaches, GFLOP/s, ns of a load, SMs: published figures, rounded
    [1700, 19500, 400, 108], [250, 8100, 350, 40], [2900, 66900, 390, 132], [920, 82600, 310, 128],
], "f4")  # fmt: skip


def _one(sizes):
    return (sizes["n"],)


def _inputs(rng, sizes):
    """Shares of both peaks away from the threshold and from each other, so that rounding decides nothing."""
    n = sizes["n"]
    card = CARDS[rng.integers(len(CARDS))] * rng.uniform(0.9, 1.1, 4).astype("f4")
    card[3] = np.round(card[3])
    kind = rng.integers(MEMORY, LATENCY + 1, n)
    high, low = rng.uniform(BUSY + 0.02, 0.97, n), rng.uniform(0.02, BUSY - 0.02, n)
    other = rng.uniform(0.02, 0.9, n) * high  # may be busy as well, but less so
    memory = np.where(kind == MEMORY, high, np.where(kind == COMPUTE, other, low))
    compute = np.where(kind == COMPUTE, high, np.where(kind == MEMORY, other, rng.uniform(0.02, BUSY - 0.02, n)))
    us = rng.uniform(3, 900, n)
    return {
        "us": us.astype("f4"),
        "nbytes": (memory * card[0] * us * 1e3).astype("f4"),
        "flop": (compute * card[1] * us * 1e3).astype("f4"),
        "card": card,
    }


def _reference(inputs, sizes):
    us, nbytes, flop = (inputs[name].astype("f8") for name in ("us", "nbytes", "flop"))
    gbs, gflops, latency, sms = inputs["card"].astype("f8")
    memory, compute = nbytes / (us * 1e3) / gbs, flop / (us * 1e3) / gflops
    busiest = np.where(memory >= compute, MEMORY, COMPUTE)
    kind = np.where(np.maximum(memory, compute) < BUSY, LATENCY, busiest)
    return {"kind": kind.astype("f8"), "loads": nbytes / (us * 1e3) * latency / LINE / sms}


PROBLEM = Problem(
    name="01_bottleneck",
    title="Name the bottleneck",
    statement=(
        "For each of n profiled kernels say what limits it (1 memory, 2 arithmetic, 3 latency: nothing is at 60 % of its"
        " peak), and by Little's law how many loads of 128 bytes it has under way on each SM."
    ),
    entry=Kernel(
        "bottleneck",
        (
            Array("us", _one),
            Array("nbytes", _one),
            Array("flop", _one),
            Array("card", lambda sizes: (4,)),
            Array("kind", _one, "output"),
            Array("loads", _one, "output"),
        ),
        grid=lambda sizes: (-(-sizes["n"] // 64),),
        block=lambda sizes: (64,),
    ),
    cases=tuple(Case({"n": n}) for n in (1, 5, 64, 127, 1000)),
    secret=lambda rng: [Case({"n": n}, secret=True) for n in near(rng, 300, 700)],
    inputs=_inputs,
    reference=_reference,
    tolerance=Tolerance(relative=1e-5),
    rubric=rules.correct(values=8, hazards=2),
    hints=(
        "A rate alone says nothing: 500 GB/s is a lot for one card and little for another. What do you divide it by?",
        "memory = nbytes / time / peak, and the same for arithmetic. The larger of the two names the bottleneck,"
        " unless it is below 0.6. Loads under way: bytes a nanosecond, times the nanoseconds of a load.",
        "gbs = nbytes[i] / us[i] / float32(1000). kind is 3 if gbs / card[0] and gflops / card[1] are both below"
        " 0.6, else 1 or 2. loads[i] = gbs * card[2] / float32(128) / card[3].",
    ),
)
