"""Rules on asynchronous copies, from the counters of the correctness runs: they need no timing."""

import re

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


def copies_ahead(e: Evidence) -> Check:
    """The next copies are under way while the last ones are used."""
    code = b"\n".join(m for program in e.built.programs.values() for m in program.modules)
    left = [int(n) for n in re.findall(rb"^\s*cp\.async\.wait_group\s+(\d+)\s*;", code, re.MULTILINE)]
    if b"mbarrier." in code:
        return passed("copies are waited for at an mbarrier")
    if any(left):
        return passed(f"a wait leaves {max(left)} group{'s' if max(left) > 1 else ''} of copies under way")
    return failed(
        "every wait is for all copies: nothing is under way while the tile is used",
        "Start the next copy before you wait for the last one: cp_async_wait(1) leaves the newest group alone.",
    )
