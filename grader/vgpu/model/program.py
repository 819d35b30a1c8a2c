"""A kernel as the clock sees it: flat arrays of instructions with pipes, latencies, registers and memory sites.

ptxas reorders code so that loads start early; the same is done here, block by block, by list scheduling on the longest
path (loads weigh their latency), within the bounds of data dependence and of memory order.
"""

import heapq
from dataclasses import dataclass

import numpy as np

from ..jit import layout as L
from ..ptx.cfg import build_body, dest_and_sources, registers
from ..ptx.parse import Imm
from . import costs

(
    PLAIN, LOAD, STORE, SHARED_LOAD, SHARED_STORE, ATOMIC, SHARED_ATOMIC, COPY, COMMIT, WAIT_GROUP, BARRIER,
    EXIT, SHUFFLE, FENCE, ALIAS, MBARRIER, BULK,
) = range(17)  # fmt: skip
BYPASS = 1  # flag of a load that does not use the L1
BULK_GROUPS = 1 << 16  # flag of a commit or a wait: of bulk copies' groups

_LOAD_WEIGHT, _SHARED_WEIGHT = 200, 30


@dataclass(frozen=True)
class Program:
    """Arrays by instruction, in the order of issue; `first` gives each block's start."""

    first: np.ndarray
    kind: np.ndarray
    pipe: np.ndarray
    slots: np.ndarray
    latency: np.ndarray
    site: np.ndarray
    # Of a barrier: its number << 16 | threads; of a wait or a commit: groups left, and flags; of a load: flags; of a copy:
    # flags, and passes into shared memory << 8
    arg: np.ndarray
    regs_first: np.ndarray  # sources, then destinations
    dests_first: np.ndarray
    regs: np.ndarray
    lines: np.ndarray  # the student's line
    nregs: int


@dataclass(slots=True)
class _Item:
    kind: int
    pipe: int
    slots: float
    latency: float
    site: int
    arg: int
    sources: list
    dests: list
    line: int
    memory: str = ""  # "r" or "w" and spaces; "" for none


def build(kernel) -> Program:
    """The program of a `machine.Kernel`."""
    code = kernel.code()
    body = build_body(kernel._code, set(kernel.param_offsets))
    numbers: dict[str, int] = {}
    sites: dict[int, list] = {}
    for k, site in enumerate(code.sites):
        sites.setdefault(site.block, []).append((k, site))
    blocks = []
    for b, block in enumerate(body.blocks):
        pending = list(sites.get(b, ()))
        items = []
        for instr in block.instrs:
            item = _item(instr, pending, numbers)
            if item is not None:
                items.append(item)
        blocks.append(_schedule(items))
    return _flatten(blocks, len(numbers))


def _item(instr, pending, numbers):
    """An instruction's item; None where there is nothing left of it in machine code."""
    parts = instr.parts
    base = parts[0]
    pipe, slots, latency = costs.cost(parts)
    dests, sources = dest_and_sources(instr)
    source_ids = _numbers([r for s in sources for r in registers(s)], numbers)
    dest_ids = _numbers(dests, numbers)
    site = -1
    if pending and pending[0][1].op == instr.op and pending[0][1].line == instr.line:
        site = pending.pop(0)[0]
    if slots == 0 and (not source_ids or not dest_ids):
        return None
    kind, arg, memory = PLAIN, 0, ""
    space = next(
        (p for p in parts if p.split("::")[0] in ("global", "shared", "local", "const", "param")), "generic"
    ).split("::")[0]
    if slots == 0:
        kind = ALIAS
    elif base in ("ld", "ldu", "ldmatrix"):
        kind = SHARED_LOAD if space == "shared" else LOAD
        arg = BYPASS if {"volatile", "relaxed", "acquire", "cv", "cg"} & set(parts) else 0
        memory = "r" + space
        if {"volatile", "acquire"} & set(parts):
            memory = "w" + space
        if "nc" in parts:
            memory = ""
        if space == "const" and site < 0:
            kind, slots, pipe = ALIAS, 0, costs.NONE
    elif base in ("st", "stmatrix"):
        kind, memory = (SHARED_STORE if space == "shared" else STORE), "w" + space
    elif base in ("atom", "red"):
        kind, memory = (SHARED_ATOMIC if space == "shared" else ATOMIC), "w" + space
    elif base == "cp":
        kind, arg, memory = _copy(instr, parts)
    elif base == "mbarrier":
        kind, memory = (SHARED_LOAD if parts[1] == "pending_count" else MBARRIER), "wgeneric"
    elif base in ("bar", "barrier"):
        if parts[1] == "result":
            kind, slots = ALIAS, 0
        elif parts[1] == "warp":
            kind = PLAIN
        else:
            kind = BARRIER
            numbers_given = [a.value for a in instr.args if isinstance(a, Imm)]
            if len(numbers_given) == len(instr.args) and "red" not in parts:
                arg = (numbers_given[0] if numbers_given else 0) << 16 | (
                    numbers_given[1] if len(numbers_given) > 1 else 0
                )
        memory = "wgeneric"
    elif base in ("ret", "exit", "trap"):
        kind = EXIT
        if instr.pred is not None:
            kind = PLAIN
    elif base == "shfl":
        kind, memory = SHUFFLE, ""
    elif base in ("membar", "fence"):
        kind, memory = FENCE, "wgeneric"
    elif base == "call":
        memory = "wgeneric"
    return _Item(kind, pipe, slots, latency, site, arg, source_ids, dest_ids, instr.line, memory)


def _copy(instr, parts):
    bulk = "bulk" in parts
    groups = BULK_GROUPS if bulk else 0
    if "commit_group" in parts:
        return COMMIT, groups, "wgeneric"
    if "wait_group" in parts or "wait_all" in parts:
        left = instr.args[0].value if instr.args and isinstance(instr.args[0], Imm) else 0
        return WAIT_GROUP, left | groups, "wgeneric"
    if bulk:
        return BULK, 0, "wgeneric"
    if "mbarrier" in parts[:3]:
        return MBARRIER, 0, "wgeneric"
    size = instr.args[2].value if len(instr.args) > 2 and isinstance(instr.args[2], Imm) else 4
    return COPY, (0 if "ca" in parts else BYPASS) | max(1, size // 4) << 8, "wgeneric"


def _numbers(regs, numbers):
    return [numbers.setdefault(r.name, len(numbers)) for r in regs]


def _schedule(items):
    """List scheduling of one block; the last instruction stays last."""
    n = len(items)
    if n < 3:
        return items
    after = [set() for _ in range(n)]
    before = [0] * n
    last_write, readers = {}, {}
    last_fence, last_store, loads = -1, {}, []

    def edge(a, b):
        if a != b and b not in after[a]:
            after[a].add(b)
            before[b] += 1

    for i, item in enumerate(items):
        for r in item.sources:
            if r in last_write:
                edge(last_write[r], i)
            readers.setdefault(r, []).append(i)
        for r in item.dests:
            if r in last_write:
                edge(last_write[r], i)
            for k in readers.pop(r, ()):
                edge(k, i)
            last_write[r] = i
        if item.memory:
            space = item.memory[1:]
            if last_fence >= 0:
                edge(last_fence, i)
            if item.memory[0] == "r":
                for other, k in last_store.items():
                    if other == space or "generic" in (other, space):
                        edge(k, i)
                loads.append((space, i))
            else:
                for other, k in [*last_store.items(), *loads]:
                    if other == space or "generic" in (other, space):
                        edge(k, i)
                last_store[space] = i
                if space == "generic" and item.kind not in (COPY,):
                    last_fence = i
                    last_store, loads = {}, []
    for i in range(n - 1):
        edge(i, n - 1)
    weight = [0.0] * n
    for i in range(n - 1, -1, -1):
        item = items[i]
        own = {LOAD: _LOAD_WEIGHT, ATOMIC: _LOAD_WEIGHT, SHARED_LOAD: _SHARED_WEIGHT}.get(
            item.kind, max(item.latency, item.slots)
        )
        weight[i] = own + max((weight[k] for k in after[i]), default=0.0)
    heap = [(-weight[i], i) for i in range(n) if before[i] == 0]
    heapq.heapify(heap)
    order = []
    while heap:
        _, i = heapq.heappop(heap)
        order.append(items[i])
        for k in after[i]:
            before[k] -= 1
            if before[k] == 0:
                heapq.heappush(heap, (-weight[k], k))
    return order


def _flatten(blocks, nregs) -> Program:
    items = [item for block in blocks for item in block]
    first = np.cumsum([0] + [len(block) for block in blocks]).astype(np.int64)
    regs, regs_first, dests_first = [], [0], []
    for item in items:
        regs += item.sources
        dests_first.append(len(regs))
        regs += item.dests
        regs_first.append(len(regs))

    def column(name, dtype):
        return np.array([getattr(item, name) for item in items], dtype)

    return Program(
        first,
        column("kind", np.int64),
        column("pipe", np.int64),
        column("slots", np.float64),
        column("latency", np.float64),
        column("site", np.int64),
        column("arg", np.int64),
        np.array(regs_first, np.int64),
        np.array(dests_first, np.int64),
        np.array(regs or [0], np.int64),
        column("line", np.int64),
        nregs,
    )


__all__ = ["L", "Program", "build"]
