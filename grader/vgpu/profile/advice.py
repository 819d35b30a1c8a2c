"""What the figures mean when they are bad, and one thing to try."""

from dataclasses import replace

# What each warp state says (Nsight Compute's Kernel Profiling Guide, "Warp Stall Reasons").
STALLS = {
    "selected": "issued an instruction",
    "not selected": "ready, but another warp was chosen: warps enough",
    "wait": "a fixed latency between dependent instructions",
    "math pipe throttle": "its arithmetic pipe was busy",
    "short scoreboard": "a result from shared memory or a special function",
    "long scoreboard": "data from global or local memory",
    "barrier": "other warps of the block at a __syncthreads",
    "lg throttle": "the queue to global memory was full",
    "mio throttle": "the queue to shared memory was full",
    "membar": "its own stores, at a memory fence",
}

# Name's start -> (is it bad?, one thing to try)
_RULES = [
    (
        "Sectors/request",
        lambda m: m.value > 1.5 * _needed(m),
        "let neighbouring threads (threadIdx.x) take neighbouring elements",
    ),
    (
        "Ways, shared",
        lambda m: m.value >= 1.5,
        "pad the rows of the shared array by one element, or let threadIdx.x run along a row",
    ),
    (
        "Threads/instruction",
        lambda m: m.value < 24,
        "let whole warps take the same branch; use blocks of a multiple of 32 threads",
    ),
    (
        "Branch efficiency",
        lambda m: m.value < 80,
        "branch on what a whole warp shares (threadIdx.x // 32), or compute both sides and select",
    ),
    (
        "Theoretical occupancy",
        lambda m: m.value < 40,
        "smaller blocks, fewer registers or less shared memory a block, whichever limits it",
    ),
    (
        "Local memory sectors",
        lambda m: m.value > 0,
        "keep small arrays in registers: constant sizes and indexes, fewer live values",
    ),
    (
        "long scoreboard",
        lambda m: m.value > 50,
        "more loads under way at once (more warps, or several a thread), or fewer of them",
    ),
    (
        "short scoreboard",
        lambda m: m.value > 40,
        "more independent work between a load from shared memory (or a sine, a root) and its use",
    ),
    ("wait", lambda m: m.value > 50, "several independent chains of operations a thread, or more warps"),
    ("barrier", lambda m: m.value > 30, "smaller blocks, or the same work for all warps between barriers"),
    ("mio throttle", lambda m: m.value > 30, "fewer, wider accesses to shared memory (keep values in registers)"),
    ("lg throttle", lambda m: m.value > 30, "coalesce, or load 8 or 16 bytes at once"),
    (
        "math pipe throttle",
        lambda m: m.value > 40,
        "fewer instructions on the busiest pipe: 32-bit indexes, cheaper operations",
    ),
]


def _needed(metric) -> float:
    return float(metric.meaning.split()[0])


def advise(metric):
    """The metric with its advice, if it is bad."""
    for start, bad, text in _RULES:
        if metric.name.startswith(start) and bad(metric):
            return replace(metric, advice=text)
    return metric
