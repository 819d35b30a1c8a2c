"""Findings and faults in words: what happened, where, both parties, one thing to try."""

from dataclasses import dataclass, field

from ..jit import layout as L
from ..jit import state
from ..jit.raw import raw_view
from . import causes


@dataclass(slots=True)
class Finding:
    """One cause, reported once."""

    tool: str  # memcheck, racecheck, initcheck or synccheck
    kind: str  # short name of what went wrong
    message: str  # a sentence
    line: int  # in `file`; 0 when unknown
    file: str
    other_line: int = 0  # the other party's
    count: int = 1  # times that it was seen
    kernel: str = ""

    def __str__(self):
        where = f", line {self.line}" if self.line else ""
        return f"{self.tool}{where}: {self.message}"


@dataclass(slots=True)
class Fault:
    """Why a launch ended early."""

    kind: str  # illegal_address, misaligned, assert, trap, deadlock, timeout, resources
    message: str
    line: int = 0
    file: str = ""
    block: tuple | None = None
    thread: tuple | None = None
    finding: Finding | None = field(default=None, repr=False)


def thread_index(linear: int, block) -> tuple:
    """(x, y, z) of a linear thread number."""
    bx, by, _ = block
    return linear % bx, linear // bx % by, linear // (bx * by)


def name_index(index: tuple) -> str:
    """(5, 0, 0) as "5", (1, 2, 0) as "(1, 2)"."""
    if index[2]:
        return str(index)
    return f"({index[0]}, {index[1]})" if index[1] else str(index[0])


NULL_PAGE = 1 << 16


def far_from(allocation) -> int:
    """Bytes from an allocation beyond which an access hardly meant it."""
    return (1 << 16) + 64 * allocation.nbytes


def is_mapped(address: int) -> bool:
    """True where this process has memory; False where it may not look, as in a locked-down child."""
    try:
        with open("/proc/self/maps") as maps:
            ranges = [line.split()[0].split("-") for line in maps]
    except OSError:
        return False
    return any(int(low, 16) <= address < int(high, 16) for low, high in ranges)


class Context:
    """Turns the machine's numbers into names for one kernel's findings."""

    def __init__(self, kernel, code, memory, block):
        self.kernel, self.code, self.memory, self.block = kernel, code, memory, block

    def place(self, site: int) -> tuple[int, str]:
        if not 0 <= site < len(self.code.sites):
            return 0, ""
        s = self.code.sites[site]
        line, file = s.line, s.file
        if not line:  # the compiler's own: where the code around it is from
            line, file = next(((i[1], i[2]) for i in self.code.blocks[s.block] if i[1]), (0, file))
        return line, self.kernel.files.get(file, "")

    def block_place(self, block: int, otherwise: tuple[int, str]) -> tuple[int, str]:
        """Line and file of the first instruction of a block of code."""
        if not 0 <= block < len(self.code.blocks) or not self.code.blocks[block]:
            return otherwise
        _, line, file = self.code.blocks[block][0][:3]
        return line, self.kernel.files.get(file, "")

    def loop_place(self, block: int) -> tuple[tuple[int, str], str]:
        """Line and file of a loop's block, and what is waited for there."""
        around = [b for b in range(block, len(self.code.blocks)) if block in self.code.succs[b]]
        blocks = range(block, max(around, default=block) + 1)
        ops = [i for b in blocks for i in self.code.blocks[b]]
        what = "waits for an mbarrier's phase" if any(i[0].startswith("mbarrier") for i in ops) else "waits in a loop"
        read = next(
            (i for i in ops if i[0].split(".")[0] in ("mbarrier", "atom", "ld") and "param" not in i[0]),
            ops[0] if ops else ("", 0, 0),
        )
        return (read[1], self.kernel.files.get(read[2], "")), what

    def thread(self, linear: int) -> str:
        return f"thread {name_index(thread_index(linear, self.block))}"

    def at_line(self, site: int) -> str:
        line, _ = self.place(site)
        return f" (line {line})" if line else ""

    def element(self, offset: int, site: int) -> str:
        """A byte offset in an array, counted in elements of what the place accesses."""
        size = self.code.sites[site].nbytes if 0 <= site < len(self.code.sites) else 0
        size //= next((n for part, n in (("v2", 2), ("v4", 4)) if part in self.code.sites[site].op.split(".")), 1)
        return f"element {offset // size}" if size and offset % size == 0 else f"byte {offset}"

    def shared_word(self, offset: int, site: int = -1) -> str:
        names = sorted((o, n) for n, o in self.kernel.offsets.items() if self.kernel.spaces.get(n) == "shared")
        owner = None
        for at, name in names:
            if at <= offset:
                owner = (at, name)
        if owner is None:
            return f"byte {offset} of shared memory"
        which = (
            "the shared array"
            if len(names) == 1
            else f"shared array {[n for _, n in names].index(owner[1]) + 1} of {len(names)}"
        )
        return f"{self.element(offset - owner[0], site)} of {which}"

    @staticmethod
    def name(allocation) -> str:
        return allocation.label or f"the {allocation.nbytes}-byte {allocation.kind} allocation"

    def allocation(self, address: int, site: int = -1) -> str:
        gone = self.memory.find_freed(address)
        if gone is not None:
            return f"{self.element(address - gone.address, site)} of {self.name(gone)}, which has been freed"
        if 0 <= address < NULL_PAGE:
            return f"address {address:#x}, a null pointer"
        found = self.memory.find(address) or self.memory.nearest(address)
        if found is None or not found.address - far_from(found) < address < found.end + far_from(found):
            return f"address {address:#x}, " + (
                "memory of the host, which the device does not see: copy it to the device first"
                if is_mapped(address)
                else "no allocation is near"
            )
        name = self.name(found)
        offset = address - found.address
        if 0 <= offset < found.nbytes:
            return f"{self.element(offset, site)} of {name}"
        side = f"{offset - found.nbytes} bytes past the end" if offset >= 0 else f"{-offset} bytes before the start"
        return f"{side} of {name}"


RACE_WORDS = {
    state.RACE_RAW: ("read after write", "{me} reads what {other} writes"),
    state.RACE_WAR: ("write after read", "{me} writes what {other} reads"),
    state.RACE_WAW: ("write after write", "{me} and {other} both write"),
}


def _parties(c: Context, row) -> tuple[str, str]:
    """Both threads of a record; blocks are named where they differ."""
    block, thread, other_block, other = row[4:8]
    me, you = c.thread(thread), c.thread(other) if other >= 0 else "another thread"
    if row[11] == state.APART_BLOCKS:
        me += f" of block {block}"
        you += f" of block {other_block}" if other_block >= 0 else " of another block"
    return me, you


def _copy_race(c: Context, row) -> Finding:
    """A conflict with an asynchronous copy."""
    kind, site, other_site, thread, address = row[1], row[2], row[3], row[5], row[8]
    line, file = c.place(site)
    me, other = _parties(c, row)
    if kind == state.RACE_SOURCE:
        text = (
            f"the source of {me}'s asynchronous copy changed before the copy was waited for{c.at_line(other_site)}: "
            "nobody may write there until the wait is over"
        )
        return Finding("racecheck", "source changed", text, line, file, c.place(other_site)[0], row[10])
    verb = "reads" if row[9] == L.LOAD else "writes"
    whose = "its own" if row[7] == thread else f"{other}'s"
    text = (
        f"{me} {verb} {c.shared_word(address, site)} while {whose} asynchronous copy{c.at_line(other_site)} into it is "
        "still under way: wait for the copy's group first (cp.async.wait_group), then synchronise the block"
    )
    return Finding("racecheck", "missing wait", text, line, file, c.place(other_site)[0], row[10])


def _remedy(c: Context, conflict) -> str:
    """Why nothing orders the two, and one thing to try."""
    if conflict.apart == causes.BLOCKS:
        return ", nothing orders the blocks of a launch: use an atomic, or two launches"
    one_warp = conflict.apart == causes.LANES
    call = "cuda.syncwarp()" if one_warp else "cuda.syncthreads()"
    what = ", threads of one warp, and no syncwarp between them" if one_warp else ", no barrier between them"
    line, other_line = c.place(conflict.second)[0], c.place(conflict.first)[0]
    if line == other_line and conflict.kind == state.RACE_WAW:
        return ", one of which is lost: let one thread write there, or use an atomic"
    if line == other_line and conflict.kind == state.RACE_WAR:
        return f"{what}: use an atomic, or read and write in two lines with {call} between them"
    start, end, around = causes.gap(conflict)
    after, before = c.place(start)[0], c.place(end)[0] if not around else 0
    if around or after >= before:  # the other way round in the text: a loop, perhaps unrolled
        return f"{what}: put {call} at the end of the loop's body"
    return f"{what}: put {call} between lines {after} and {before}"


def _race(c: Context, conflict) -> Finding:
    row = conflict.row
    me, other = _parties(c, row)
    if conflict.swapped:
        me, other = other, me
    name, words = RACE_WORDS[conflict.kind]
    line, file = c.place(conflict.second)
    where = c.allocation(row[8], row[2]) if conflict.in_global else c.shared_word(row[8], row[2])
    words = words.format(me=me, other=other + c.at_line(conflict.first))
    text = f"{words}: {where}{_remedy(c, conflict)}" + _also(c, conflict)
    return Finding("racecheck", name, text, line, file, c.place(conflict.first)[0], conflict.count)


def _also(c: Context, conflict) -> str:
    """The other lines that the same barrier would put in order, each pair once."""
    pairs = {tuple(sorted((c.place(o.first)[0], c.place(o.second)[0]))) for o in conflict.also}
    pairs -= {tuple(sorted((c.place(conflict.first)[0], c.place(conflict.second)[0])))}
    named = [f"line {a} with itself" if a == b else f"lines {a} and {b}" for a, b in sorted(pairs) if a]
    return ". The same holds for " + ", ".join(named[:4]) if named else ""


def _init(c: Context, row) -> Finding:
    _, kind, site, _, block, thread, _, _, address, _ = row[:10]
    line, file = c.place(site)
    if kind == 2:
        where = f"{c.element(address, site)} of its local memory"
    else:
        where = c.shared_word(address, site) if kind == 0 else c.allocation(address, site)
    text = f"{c.thread(thread)} of block {block} reads {where}, which nothing has written"
    return Finding("initcheck", "uninitialised read", text, line, file)


NOT_WAITED, ENDED_WITHOUT = 4, 6
MBARRIER_WORDS = {
    0: "uses a barrier that was not initialised (mbarrier.init)",
    1: "arrives at a barrier at which no arrival is outstanding in this phase",
    2: "initialises a barrier with a count outside 1 to 1048575",
    3: "initialises a barrier that is in use: one thread has to do so, once, or after mbarrier.inval",
    4: "arrives at a barrier in its next phase before any thread has waited for the last one",
    5: "uses a barrier that {other} initialises with nothing between: put cuda.syncthreads() after mbarrier.init",
    6: "arrives at a barrier whose phase ended without it, when {other} arrived: mbarrier.init was given too low a count, "
    "or it has not waited for that phase",
}


def _sync(c: Context, row) -> Finding:
    _, kind, site, other_site, block, thread, _, other_thread, _, value = row[:10]
    line, file = c.place(site)
    me = f"{c.thread(thread)} of block {block}"
    other_line = c.place(other_site)[0]
    if kind == state.SYNC_DIVERGENT:
        other = c.thread(other_thread) if other_thread >= 0 else "another thread"
        text = f"{me} waits at a barrier that {other} of the same warp does not reach: put it outside the condition"
        if other_line and other_line != line:
            text = (
                f"{me} waits at a barrier, and others of its warp at another one (line {other_line}): put one barrier "
                "outside the condition"
            )
        return Finding("synccheck", "divergent barrier", text, line, file, other_line)
    if kind == state.SYNC_NOT_NAMED:
        text = f"{me} takes part in a warp operation whose mask does not name it"
        return Finding("synccheck", "lane not in mask", text, line, file)
    if kind == state.SYNC_MISSING_LANES:
        text = f"{me} waits for lanes that its mask names and that never arrive"
        line, file = c.block_place(row[8], (line, file))
        other_line = c.block_place(value, (other_line, file))[0]
        if other_thread >= 0:
            text += f": {c.thread(other_thread)} of its warp waits" + (
                f" at line {other_line}" if other_line else " elsewhere"
            )
        return Finding("synccheck", "missing lanes", f"{text}. Name only lanes that come here", line, file, other_line)
    if kind == state.SYNC_GRID:
        text = f"{me} waits for all blocks of the grid, and some have ended, or cannot start, without coming here"
        return Finding("synccheck", "deadlock", text, line, file)
    if kind == state.SYNC_BARRIER_COUNT:
        text = f"{me} gives a barrier {value % (1 << 32)} threads: it must be a multiple of 32, and the same for all"
        return Finding("synccheck", "barrier count", text, line, file)
    if kind == state.SYNC_STUCK:
        other = f", and {c.thread(other_thread)}{c.at_line(other_site)} at another" if other_thread >= 0 else ""
        text = f"{me} waits at a barrier that can never be complete{other}"
        return Finding("synccheck", "deadlock", text, line, file, other_line)
    words = MBARRIER_WORDS[value].format(other=c.thread(other_thread) if other_thread >= 0 else "another thread")
    return Finding("synccheck", "mbarrier", f"{me} {words}", line, file, other_line)


def _is_mbarrier(row, what: int) -> bool:
    return row[0] == state.SYNCCHECK and row[1] == state.SYNC_MBARRIER and row[9] == what


def make_findings(rows, kernel, code, memory, block) -> list[Finding]:
    """The machine's records in words, one finding a cause."""
    c = Context(kernel, code, memory, block)
    rows = [[int(v) for v in row] for row in rows]
    both = [r for r in rows if r[0] == state.SYNCCHECK and r[1] == state.SYNC_DIVERGENT and r[3] >= 0]
    pairs = {site for r in both for site in r[2:4]}
    early = any(_is_mbarrier(r, ENDED_WITHOUT) for r in rows)
    out = []
    for row in rows:
        lone = row[0] == state.SYNCCHECK and row[1] == state.SYNC_DIVERGENT and row[3] < 0
        same = early and _is_mbarrier(row, NOT_WAITED)  # of the count that was too low
        if row[0] == state.SYNCCHECK and not (lone and row[2] in pairs) and not same:
            out.append(_sync(c, row))
            out[-1].count = row[10]
    broken = any(f.kind in ("divergent barrier", "barrier count") for f in out)  # then the block's order means nothing
    races = [row for row in rows if row[0] == state.RACECHECK]
    plain = [r for r in races if r[1] % state.GLOBAL_KIND <= state.RACE_WAW and not (broken and r[4] == r[6])]
    found = causes.conflicts(plain, code)
    out += [_race(c, conflict) for conflict in found]
    known = {frozenset((f.line, f.other_line)) for f in out}
    copies = [_copy_race(c, row) for row in races if row[1] in (state.RACE_UNWAITED, state.RACE_SOURCE)]
    out += [
        f for f in copies if frozenset((f.line, f.other_line)) not in known
    ]  # a barrier would have come after the wait
    late = {line for conflict in found for line in causes.reads(conflict, code)}
    # Without optimisation whole variables are copied to and fro, whatever of them was ever set.
    copied_whole = kernel.module.parsed.debug
    for row in rows:
        if row[0] == state.INITCHECK and not (row[1] == 2 and copied_whole):
            finding = _init(c, row)
            place = code.sites[row[2]]
            if (place.file, place.line) not in late and not (
                broken and row[1] == 0
            ):  # the race is why it is not written yet
                finding.count = row[10]
                out.append(finding)
    return merge(out)


def merge(findings: list[Finding]) -> list[Finding]:
    """Copies of one line that the compiler made (an unrolled loop) are one place."""
    known: dict = {}
    for f in findings:
        key = (f.tool, f.kind, f.file, f.line, f.other_line, f.message if not f.line else "")
        if key in known:
            known[key].count += f.count
        else:
            known[key] = f
    return list(known.values())


FAULT_KINDS = {
    L.FAULT_ADDRESS_RANGE: "illegal_address",
    L.FAULT_MISALIGNED: "misaligned",
    L.FAULT_TRAP: "trap",
    L.FAULT_ASSERT: "assert",
    L.FAULT_DEADLOCK: "deadlock",
    L.FAULT_OVERFLOW: "resources",
    L.FAULT_MBARRIER: "resources",
}


def make_fault(outcome, worker, kernel, code, memory, block, explained: bool = False) -> Fault:
    """A worker's outcome in words. `explained`: synccheck has found why nothing happens."""
    import numpy as np

    why, value = outcome
    if why == "timeout":
        return Fault("timeout", f"the kernel was still running after {value:.1f} s")
    c = Context(kernel, code, memory, block)
    if why in ("stalled", "barriers"):
        return _stalled(worker, c, value, why == "barriers", explained)
    w = value
    i32 = raw_view(w, 1024).view(np.int32)
    fault, lane, site = int(i32[L.FAULT // 4]), int(i32[L.FAULT_LANE // 4]), int(i32[L.FAULT_SITE // 4])
    address = int(raw_view(w + L.FAULT_ADDRESS, 8).view(np.int64)[0])
    linear = int(i32[L.WARPID // 4]) * 32 + lane
    block_index = tuple(int(i32[L.CTAID // 4 + k]) for k in range(3))
    line, file = c.place(site)
    kind = FAULT_KINDS.get(fault, "trap")
    me = f"thread {name_index(thread_index(linear, block))} of block {name_index(block_index)}"
    finding = None
    if kind in ("illegal_address", "misaligned"):
        s = code.sites[site]
        freed = False
        verb = {L.LOAD: "reads", L.STORE: "writes", L.ATOMIC: "updates"}.get(s.kind, "copies")
        space = {1: L.SPACE_SHARED, 2: L.SPACE_LOCAL}.get((address >> L.WINDOW_SHIFT) & 0xFF, L.SPACE_GLOBAL)
        if space != L.SPACE_GLOBAL:
            address = (address & 0xFFFFFFFF) - ((address & 0x80000000) << 1)
        if space == L.SPACE_SHARED:
            size = int(i32[L.SHARED_BYTES // 4])
            where = f"byte {address} of shared memory, of which there are {size} bytes"
            if address >> L.RANK_SHIFT > 0 and any(op.startswith("mapa") for b in code.blocks for op, *_ in b):
                where = f"shared memory of block {address >> L.RANK_SHIFT} of its cluster, which is a cluster of one"
        elif space == L.SPACE_LOCAL:
            where = f"byte {address} of its local memory, of which there are {kernel.local_bytes} bytes"
        else:
            where = c.allocation(address, site)
            freed = memory.find_freed(address) is not None
        text = f"{me} {verb} {s.nbytes} bytes{' at' if where.startswith(('address', 'byte')) else ','} {where}"
        if kind == "misaligned":
            text += f": the address must be a multiple of {s.nbytes}"
        name = "misaligned" if kind == "misaligned" else "use after free" if freed else "out of bounds"
        finding = Finding("memcheck", name, text, line, file)
    elif kind == "assert":
        text = f"an assertion failed in {me}"
    elif kind == "deadlock":
        text = f"{me} can never go on"
    elif kind == "resources":
        text = f"{me} has more asynchronous copies or mbarriers under way than the virtual GPU keeps"
    else:
        text = f"{me} executed a trap"
    return Fault(kind, text, line, file, block_index, thread_index(linear, block), finding)


def _stalled(worker, c: Context, seconds: float, barriers: bool, explained: bool) -> Fault:
    """Who waits where, when everyone waits in a loop, or at a barrier, for something that does not happen.

    With `barriers`, threads do go on, from barrier to barrier, and nothing else happens.
    """
    waits = sorted(_waits(worker, c), key=lambda w: w[0])
    places: dict = {}
    for block, thread, at, what in waits:
        places.setdefault(at, []).append((block, thread, what))
    parts = []
    for (line, _), who in places.items():
        block, thread, what = who[0]
        crowd = f"{len(who)} threads, the first of them " if len(who) > 1 else ""
        parts.append(f"at line {line} {crowd}{c.thread(thread)} of block {block} {what}")
    what = "nothing has happened" if not barriers else "nothing but barriers has happened"
    text = f"{what} for {seconds:.0f} s, and nothing can: " + "; ".join(parts[:6])
    lines = [line for line, _ in places]
    line, file = next(iter(places), (0, ""))
    finding = Finding("synccheck", "deadlock", text, line, file, lines[1] if len(lines) > 1 else 0)
    return Fault("deadlock", text, line, file, finding=None if explained else finding)


def _waits(worker, c: Context):
    """(block, thread, (line, file), what it does) of each thread that has not ended."""
    import numpy as np

    for slot, active in zip(worker.slots, worker.active, strict=True):
        if not active:
            continue
        words = raw_view(slot.address, 128).view(np.int64)
        nwarps, first, stride = int(words[0]), int(words[state.B_WARPS // 8]), int(words[state.B_WARP_STRIDE // 8])
        status = raw_view(slot.address + state.B_STATUS, 8 * nwarps).view(np.int64)
        for v in range(nwarps):
            if status[v] == state.DONE:
                continue
            w = raw_view(first + v * stride, L.FRAME).view(np.int32)
            alive, together = int(w[L.ALIVE // 4]), int(w[L.RESUME // 4])
            for lane in range(32):
                pc = together if together >= 0 else int(w[lane])
                if not alive >> lane & 1 or pc == L.EXITED:
                    continue
                block = pc & (L.WAIT_WARP - 1)
                if status[v] != state.RUN or pc & L.WAIT_BARRIER:
                    at, what = c.place(int(w[L.BAR_SITE // 4])), "waits at a barrier"
                else:
                    at, what = c.loop_place(block)
                yield int(words[state.B_INDEX // 8]), v * 32 + lane, at, what
