"""Findings and faults in words: what happened, where, both parties, one thing to try."""

from dataclasses import dataclass, field

from ..jit import layout as L
from ..machine import state

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")


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


class Context:
    """Turns the machine's numbers into names for one kernel's findings."""

    def __init__(self, kernel, code, memory, block):
        self.kernel, self.code, self.memory, self.block = kernel, code, memory, block

    def place(self, site: int) -> tuple[int, str]:
        if not 0 <= site < len(self.code.sites):
            return 0, ""
        s = self.code.sites[site]
        return s.line, self.kernel.files.get(s.file, "")

    def thread(self, linear: int) -> str:
        return f"thread {name_index(thread_index(linear, self.block))}"

    def at_line(self, site: int) -> str:
        line, _ = self.place(site)
        return f" (line {line})" if line else ""

    def shared_word(self, offset: int) -> str:
        names = sorted((o, n) for n, o in self.kernel.offsets.items() if self.kernel.spaces.get(n) == "shared")
        owner = None
        for at, name in names:
            if at <= offset:
                owner = (at, name)
        if owner is None:
            return f"byte {offset} of shared memory"
        return f"byte {offset - owner[0]} of the shared array" if len(names) == 1 else f"byte {offset - owner[0]} of a shared array"

    def allocation(self, address: int, index: int | None = None) -> str:
        found = self.memory.find(address) or self.memory.nearest(address)
        if found is None:
            return "no allocation is near"
        name = found.label or f"the {found.nbytes}-byte {found.kind} allocation"
        offset = address - found.address
        if 0 <= offset < found.nbytes:
            return f"byte {offset} of {name}"
        side = f"{offset - found.nbytes} bytes past the end" if offset >= 0 else f"{-offset} bytes before the start"
        return f"{side} of {name}"


RACE_WORDS = {
    state.RACE_RAW: ("read after write", "{me} reads what {other} wrote"),
    state.RACE_WAR: ("write after read", "{me} writes what {other} reads"),
    state.RACE_WAW: ("write after write", "{me} and {other} both write"),
}


def _race(c: Context, row) -> Finding:
    _, kind, site, other_site, block, thread, other_block, other_thread, address, _ = (int(v) for v in row[:10])
    line, file = c.place(site)
    in_global = kind >= 8
    kind %= 8
    me, other = c.thread(thread), c.thread(other_thread)
    if kind == state.RACE_UNWAITED:
        text = (
            f"{me} touches {c.shared_word(address)} while the asynchronous copy{c.at_line(other_site)} of {other} into it is still "
            "under way: wait for its group first (cp.async.wait_group), then synchronise"
        )
        return Finding("racecheck", "missing wait", text, line, file, c.place(other_site)[0])
    if kind == state.RACE_SOURCE:
        text = f"the source of the asynchronous copy of {me} changed before the copy was waited for{c.at_line(other_site)}"
        return Finding("racecheck", "source changed", text, line, file, c.place(other_site)[0])
    name, words = RACE_WORDS[kind]
    if in_global:
        if block != other_block:
            me, other = f"{me} of block {block}", f"{other} of block {other_block}"
            hint = "nothing orders blocks of one launch: use an atomic, or two launches"
        else:
            hint = "with no barrier between them"
        where = c.allocation(address)
    else:
        where = c.shared_word(address)
        hint = "with no barrier between them" if thread >> 5 != other_thread >> 5 else "of one warp, with no syncwarp between them"
    text = f"{words.format(me=me, other=other + c.at_line(other_site))}: {where}, {hint}"
    return Finding("racecheck", name, text, line, file, c.place(other_site)[0])


def _init(c: Context, row) -> Finding:
    _, kind, site, _, block, thread, _, _, address, _ = (int(v) for v in row[:10])
    line, file = c.place(site)
    where = c.shared_word(address) if kind == 0 else c.allocation(address)
    text = f"{c.thread(thread)} of block {block} reads {where}, which nothing has written"
    return Finding("initcheck", "uninitialised read", text, line, file)


MBARRIER_WORDS = {
    0: "uses a barrier that was not initialised (mbarrier.init)",
    1: "arrives at a barrier at which no arrival is outstanding in this phase",
    2: "initialises a barrier with a count outside 1 to 1048575",
    3: "initialises a barrier that is in use: invalidate it first (mbarrier.inval)",
}


def _sync(c: Context, row) -> Finding:
    _, kind, site, other_site, block, thread, _, other_thread, _, value = (int(v) for v in row[:10])
    line, file = c.place(site)
    me = f"{c.thread(thread)} of block {block}"
    other_line = c.place(other_site)[0]
    if kind == state.SYNC_DIVERGENT:
        other = c.thread(other_thread) if other_thread >= 0 else "another thread"
        text = f"{me} waits at a barrier that {other} of the same warp does not reach: put the barrier outside the condition"
        return Finding("synccheck", "divergent barrier", text, line, file, other_line)
    if kind == state.SYNC_NOT_NAMED:
        text = f"{me} takes part in a warp operation whose mask does not name it"
        return Finding("synccheck", "lane not in mask", text, line, file)
    if kind == state.SYNC_MISSING_LANES:
        text = f"{me} waits for lanes that its mask names and that never arrive"
        return Finding("synccheck", "missing lanes", text, line, file)
    if kind == state.SYNC_BARRIER_COUNT:
        text = f"{me} gives a barrier {value % (1 << 32)} threads: the number must be a multiple of 32, and the same for all"
        return Finding("synccheck", "barrier count", text, line, file)
    if kind == state.SYNC_STUCK:
        other = f", and {c.thread(other_thread)}{c.at_line(other_site)} at another" if other_thread >= 0 else ""
        text = f"{me} waits at a barrier that can never be complete{other}"
        return Finding("synccheck", "deadlock", text, line, file, other_line)
    return Finding("synccheck", "mbarrier", f"{me} {MBARRIER_WORDS[value]}", line, file)


def make_findings(rows, kernel, code, memory, block) -> list[Finding]:
    """The machine's records in words."""
    c = Context(kernel, code, memory, block)
    out = []
    for row in rows:
        make = (None, _race, _init, _sync)[int(row[0])]
        finding = make(c, row)
        finding.count = int(row[10])
        out.append(finding)
    return out


FAULT_KINDS = {
    L.FAULT_ADDRESS_RANGE: "illegal_address",
    L.FAULT_MISALIGNED: "misaligned",
    L.FAULT_TRAP: "trap",
    L.FAULT_ASSERT: "assert",
    L.FAULT_DEADLOCK: "deadlock",
    L.FAULT_OVERFLOW: "resources",
    L.FAULT_MBARRIER: "resources",
}


def make_fault(outcome, worker, kernel, code, memory, block) -> Fault:
    """A worker's outcome in words."""
    import numpy as np

    from ..machine.memory import raw_view

    why, value = outcome
    if why == "timeout":
        return Fault("timeout", f"the kernel was still running after {value:.1f} s")
    c = Context(kernel, code, memory, block)
    if why == "stalled":
        return Fault("deadlock", _stalled(worker, c, value))
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
        verb = {L.LOAD: "reads", L.STORE: "writes", L.ATOMIC: "updates"}.get(s.kind, "copies")
        space = s.space
        if space == L.SPACE_GENERIC:
            window = (address >> L.WINDOW_SHIFT) & 0xFF
            space = {1: L.SPACE_SHARED, 2: L.SPACE_LOCAL}.get(window, L.SPACE_GLOBAL)
        if space == L.SPACE_SHARED:
            size = int(i32[L.SHARED_BYTES // 4])
            where = f"byte {address} of shared memory, of which there are {size} bytes"
        elif space == L.SPACE_LOCAL:
            where = f"byte {address} of its local memory, of which there are {kernel.local_bytes} bytes"
        else:
            where = f"address {address:#x}, {c.allocation(address)}"
        if kind == "misaligned":
            text = f"{me} {verb} {s.nbytes} bytes at {where}: the address must be a multiple of {s.nbytes}"
        else:
            text = f"{me} {verb} {s.nbytes} bytes at {where}"
        finding = Finding("memcheck", "out of bounds" if kind == "illegal_address" else "misaligned", text, line, file)
    elif kind == "assert":
        text = f"an assertion failed in {me}"
    elif kind == "deadlock":
        text = f"{me} can never go on: see synccheck's report"
    elif kind == "resources":
        text = f"{me} has more asynchronous copies or mbarriers under way than the virtual GPU keeps"
    else:
        text = f"{me} executed a trap"
    return Fault(kind, text, line, file, block_index, thread_index(linear, block), finding)


def _stalled(worker, c: Context, seconds: float) -> str:
    """Who waits where, when everyone waits in a loop for something that does not happen."""
    import numpy as np

    from ..machine.memory import raw_view

    lines = {}
    for slot, active in zip(worker.slots, worker.active, strict=True):
        if not active:
            continue
        words = raw_view(slot.address, 128).view(np.int64)
        nwarps, first, stride = int(words[0]), int(words[state.B_WARPS // 8]), int(words[state.B_WARP_STRIDE // 8])
        status = raw_view(slot.address + state.B_STATUS, 8 * nwarps).view(np.int64)
        for v in range(nwarps):
            if status[v] == state.DONE:
                continue
            words32 = raw_view(first + v * stride, 1024).view(np.int32)
            alive, together = int(words32[L.ALIVE // 4]), int(words32[L.RESUME // 4])
            for lane in range(32):
                pc = together if together >= 0 else int(words32[lane])
                if not alive >> lane & 1 or pc == L.EXITED:
                    continue
                code_block = c.code.blocks[int(pc) & (L.WAIT_WARP - 1)]
                line = next((i[1] for i in code_block if i[1]), 0)
                lines.setdefault(line, []).append((int(words[state.B_INDEX // 8]), v * 32 + lane))
    parts = []
    for line, who in sorted(lines.items()):
        block, thread = who[0]
        parts.append(f"line {line}: {len(who)} threads, the first of them {c.thread(thread)} of block {block}")
    return f"nothing has happened for {seconds:.0f} s: every thread waits in a loop. " + "; ".join(parts[:6])
