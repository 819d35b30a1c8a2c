"""Rules on asynchronous copies, from the counters of the correctness runs: they need no timing."""

from grader.evidence import Evidence
from grader.rules.check import Check, failed, passed, unknown


def copies_asynchronously(e: Evidence, share: float = 1.0) -> Check:
    """Global memory is read by asynchronous copies (cp.async)."""
    counted = [r.counters for r in e.results if r.counters]
    loads = sum(c.get("global_load_requests", 0) for c in counted)
    ours = sum(c.get("async_requests", 0) for c in counted)
    if not loads:
        return unknown("this device does not count asynchronous copies")
    said = f"{ours / loads:.0%} of the global loads are asynchronous copies"
    if ours >= share * loads:
        return passed(said)
    return failed(
        f"{said}; {share:.0%} is asked",
        "Load with cp_async(tile, i, array, j, nbytes); a plain tile[i] = array[j] goes through a register.",
    )
