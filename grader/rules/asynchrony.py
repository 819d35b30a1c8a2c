"""Rules on asynchronous copies, from the counters of the correctness runs: they need no timing."""

from collections import Counter

from grader.evidence import Evidence
from grader.rules.check import Check, failed, passed, unknown


def copies_asynchronously(e: Evidence, share: float = 1.0) -> Check:
    """Global memory is read by asynchronous copies (cp.async)."""
    counted = [r.counters for r in e.results if r.counters]
    # An atomic update is a way to read as well.
    loads = sum(c.get("global_load_requests", 0) + c.get("global_atomic_requests", 0) for c in counted)
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


def copies_ahead(e: Evidence, groups: int = 1, share: float = 0.5) -> Check:
    """The next copies are under way while the last ones are used."""
    counted = _sums(e)
    waits = {int(name.rsplit("_", 1)[1]): n for name, n in counted.items() if name.startswith("async_waits_leaving_")}
    total, arrivals = sum(waits.values()), counted.get("async_arrivals", 0)
    if not counted:
        return unknown("this device does not count waits")
    if arrivals > total and counted.get("mbarrier_waits", 0):
        return passed("copies arrive at an mbarrier, which is waited for")
    ahead = sum(n for left, n in waits.items() if left >= groups)
    many = f"{groups} group{'' if groups == 1 else 's'}"
    said = f"{ahead / total:.0%} of the waits leave {many} under way" if total else "no copy is waited for"
    if total and ahead >= share * total:  # the last tiles have less in front of them
        return passed(said)
    return failed(
        f"{said}; most should, while the tile is used",
        f"Start copies further ahead than you wait for: cp_async_wait({groups}) leaves the newest {groups} alone.",
    )


def waits_at_mbarriers(e: Evidence) -> Check:
    """Producer and consumers wait for each other at mbarriers."""
    code, counted = _code(e), _sums(e)
    missing = [n for n in ("mbarrier.init", "mbarrier.arrive", "mbarrier.test_wait") if n.encode() not in code]
    hint = "Two mbarriers a stage: `full`, at which the copies arrive, and `empty`, at which the consumers do."
    if missing:
        return failed(f"the kernel has no {missing[0]}", hint)
    if not counted:
        return unknown("this device does not count waits")
    looks, barriers = counted.get("mbarrier_waits", 0), counted.get("block_barriers", 0)
    said = f"warps look {looks:.0f} times at mbarriers and come {barriers:.0f} times to a barrier of the block"
    if looks > barriers:
        return passed(said)
    return failed(said, hint)


def _sums(e: Evidence) -> dict[str, float]:
    """Counters over all correctness runs."""
    found: Counter = Counter()
    for r in e.results:
        found.update(r.counters)
    return dict(found)


def _code(e: Evidence) -> bytes:
    """The PTX of everything that was recorded."""
    return b"\n".join(m for program in e.built.programs.values() for m in program.modules)
