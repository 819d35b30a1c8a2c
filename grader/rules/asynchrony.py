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


def copies_ahead(e: Evidence, groups: int = 1) -> Check:
    """The next copies are under way while the last ones are used."""
    code = _code(e)
    left = [int(n) for n in re.findall(rb"^\s*cp\.async\.wait_group\s+(\d+)\s*;", code, re.MULTILINE)]
    if b"mbarrier." in code:
        return passed("copies are waited for at an mbarrier")
    most = max(left, default=0)
    said = (
        f"a wait leaves {most} group{'' if most == 1 else 's'} of copies under way" if most else "every wait is for all"
    )
    if most >= groups:
        return passed(said)
    return failed(
        f"{said}; {groups} should be while the tile is used",
        f"Start copies further ahead than you wait for: cp_async_wait({groups}) leaves the newest {groups} alone.",
    )


def waits_at_mbarriers(e: Evidence) -> Check:
    """Producer and consumers wait for each other at mbarriers."""
    code = _code(e)
    missing = [n for n in ("mbarrier.init", "mbarrier.arrive", "mbarrier.test_wait") if n.encode() not in code]
    if not missing:
        return passed("mbarriers are initialised, arrived at and waited for")
    return failed(
        f"the kernel has no {missing[0]}",
        "Two mbarriers a stage: `full`, at which the copies arrive, and `empty`, at which the consumers do.",
    )


def _code(e: Evidence) -> bytes:
    """The PTX of everything that was recorded."""
    return b"\n".join(m for program in e.built.programs.values() for m in program.modules)
