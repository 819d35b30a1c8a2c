"""One SM, cycle by cycle, from the traces of a few blocks: a scoreboard for each warp, and servers.

Four schedulers issue in order, one instruction a cycle each, from their warps (oldest first); an instruction waits for
its operands (scoreboard) and for its pipe. A pipe, the L1's data stage, the way to L2 and that to DRAM are servers:
each takes a piece of work after the other, at its own rate. Why a warp waited is added up under Nsight Compute's names.
"""

from dataclasses import dataclass

import numpy as np

from ..machine import copies as M
from . import costs, sm
from . import program as P
from .barriers import arrive, left_by, open_mbarriers
from .hierarchy import L2_QUEUE, access
from .sm import (
    ABSENT,
    AT_BARRIER,
    AT_MBARRIER,
    DONE,
    GROUPS,
    LG,
    LONG,
    MATH,
    MEMBAR,
    MIO,
    NEVER,
    NOT_SELECTED,
    RUN,
    SCHEDULERS,
    SELECTED,
    SHORT,
    TO_FETCH,
    WAIT,
    part,
    waited,
    whole,
)  # fmt: skip
from .traces import T_ENTER, more

QUEUE = 16.0  # cycles of work that may wait before the L1's data stage
BLOCK_CYCLES = 100.0  # from a block's end to the first instruction of the next in its place


@part
def start_blocks(nwarps, ntraces, total, starts, warps, scores, queues, blocks, bars, schedulers, clock):
    """Blocks into free places, as long as there are any."""
    for r in range(len(blocks)):
        block = blocks[r]
        if not block.fresh:
            continue
        block.fresh = 0
        for k in range(bars.shape[1]):
            bars[r, k].address = -1
        there = clock.started < total
        for v in range(nwarps):
            w = r * nwarps + v
            warp = warps[w]
            if not there:
                warp.state = ABSENT
                continue
            trace = clock.started % ntraces * nwarps + v
            warp.pos, warp.end = starts[trace], starts[trace + 1]
            warp.ip = warp.ip_end = 0
            warp.state, warp.reason = RUN, TO_FETCH
            warp.since = warp.ready = block.fresh_at
            warp.order = clock.started
            warp.copied = warp.pending = 0.0
            for g in range(2):
                queues[g, w].n, queues[g, w].latest = 0, 0.0
            for k in range(scores.shape[1]):
                scores[w, k].time, scores[w, k].why = 0.0, 0
        if there:
            block.copy, block.left = clock.started // ntraces, nwarps
            clock.started += 1
    clock.fresh = 0
    for s in range(SCHEDULERS):
        schedulers[s].dirty = 1


@part
def enter(warp, first, words):
    """The next block of code of the warp's trace; its entries are passed over, since they are looked up when needed."""
    block = (words[warp.pos] >> 32) & 0xFFFFFFF
    warp.ip, warp.ip_end = first[block], first[block + 1]
    p = warp.pos + 1
    warp.entry = p
    while p < warp.end and words[p] >> 60 != T_ENTER:
        p += 1 + more(words[p])
    warp.pos = p


@part
def wait_for_groups(arg, w, queues, ends, t):
    """Of the warp's groups of copies all but the newest few must be over. -> when, at least t."""
    g = arg >> 16
    queue = queues[g, w]
    n = min(queue.n - (arg & 0xFFFF), GROUPS)
    if n > 0:
        for k in range(n):
            t = max(t, ends[g, w, k])
        for k in range(n, queue.n):
            ends[g, w, k - n] = ends[g, w, k]
        queue.n -= n
    return t


@part
def fetch(warp, w, first, code, regs, words, scores, queues, ends):
    """The warp's next instruction: when its operands are there, and what it waits for. -> whether there is one."""
    while True:
        if warp.ip >= warp.ip_end:
            if warp.pos >= warp.end:
                return False
            enter(warp, first, words)
            continue
        instruction = code[warp.ip]
        t, why = warp.since, WAIT
        for k in range(instruction.regs, instruction.regs_end):
            score = scores[w, regs[k]]
            if score.time > t:
                t, why = score.time, score.why
        if instruction.kind == P.ALIAS:  # costs nothing
            for k in range(instruction.dests, instruction.regs_end):
                score = scores[w, regs[k]]
                score.time, score.why = t, why
            warp.ip += 1
            continue
        if instruction.kind == P.WAIT_GROUP:
            until = wait_for_groups(instruction.arg, w, queues, ends, t)
            if until > t:
                t, why = until, LONG
        if instruction.kind == P.FENCE and warp.pending > t:
            t, why = warp.pending, MEMBAR
        warp.ready, warp.reason = t, why
        return True


@part
def end_warp(warp, r, nwarps, warps, blocks, schedulers, out, clock):
    """The warp's trace has ended; after the last of its block there is room for another one."""
    block = blocks[r]
    warp.state = DONE
    block.left -= 1
    clock.last = max(clock.last, warp.since)
    if block.left == 0:
        clock.finished += 1
        if clock.finished == len(blocks):
            out.first_wave = max(warp.since, clock.now)
        block.fresh, block.fresh_at = 1, max(warp.since, clock.now) + BLOCK_CYCLES
        clock.fresh += 1
    left_by(r * nwarps, (r + 1) * nwarps, warps, schedulers, clock.now)


@part
def when_free(instruction, s, t, pipes, clock):
    """When, from t on, the instruction's pipe of scheduler s takes it."""
    if instruction.pipe == costs.LSU:
        t = max(t, clock.l1_free - QUEUE)
        kind = instruction.kind
        if kind != P.SHARED_LOAD and kind != P.SHARED_STORE and kind != P.SHUFFLE:
            t = max(t, clock.l2_free - L2_QUEUE)
    elif instruction.pipe <= costs.CBU:
        t = max(t, pipes[s, instruction.pipe].free)
    return t


@part
def choose(
    s, nwarps, first, code, regs, words, warps, scores, queues, ends, blocks, schedulers, pipes, out, clock
):  # fmt: skip
    """Which of its warps the scheduler issues from next, and when: the first that can, the oldest of several."""
    scheduler, oldest = schedulers[s], NEVER
    scheduler.dirty, scheduler.best, scheduler.best_warp = 0, NEVER, -1
    for w in range(s, len(warps), SCHEDULERS):
        warp = warps[w]
        if warp.state != RUN:
            continue
        if warp.reason == TO_FETCH and not fetch(warp, w, first, code, regs, words, scores, queues, ends):
            end_warp(warp, w // nwarps, nwarps, warps, blocks, schedulers, out, clock)
            continue
        t = when_free(code[warp.ip], s, max(warp.ready, scheduler.free), pipes, clock)
        if t < scheduler.best or (t == scheduler.best and warp.order < oldest):
            scheduler.best, scheduler.best_warp, oldest = t, w, warp.order


@part
def note_waiting(warp, instruction, t, free, scheduler, pipe_busy, stalls):
    """Why the instruction that is issued at t was not issued earlier.

    free: when its warp and scheduler were; pipe_busy: cycles for which its pipe was, below 0 for none.
    """
    gap = warp.ready - warp.since
    if gap > 0:
        waited(stalls, warp.ip, warp.reason, gap)
    blocked = t - max(warp.ready, warp.since)
    if blocked > 0:
        by_pipe, lsu = t - free, instruction.pipe == costs.LSU
        if pipe_busy >= 0 and t > 0:  # while the scheduler was busy, the pipe may have been as well
            share = pipe_busy / (pipe_busy + 1.0 + (0.25 if lsu else 1.0) * scheduler.busy)
            by_pipe = max(by_pipe, (blocked - by_pipe) * share)
        if by_pipe > 0:
            why, kind = MATH, instruction.kind
            if lsu:
                far = kind == P.LOAD or kind == P.STORE or kind == P.ATOMIC or kind == P.COPY
                why = LG if far else MIO
            waited(stalls, warp.ip, why, by_pipe)
        waited(stalls, warp.ip, NOT_SELECTED, blocked - by_pipe)
    waited(stalls, warp.ip, SELECTED, instruction.slots)


@part
def keep_sample(sample, w, warp, start, end):
    """An issue; the reason is that for which the warp waited longest."""
    gap, why = warp.ready - warp.since, warp.reason
    if warp.held > gap:
        gap, why = warp.held, warp.held_why
    sample.start, sample.end, sample.warp, sample.instruction = start, end, w, warp.ip
    sample.why, sample.waited, sample.order = why, gap, warp.order


@whole
def steps(
    nwarps, ntraces, total, first, code, regs, words, starts, warps, scores, queues, ends, blocks, bars, schedulers,
    pipes, lines, touched, sites, stalls, samples, machines, results, clocks,
):  # fmt: skip
    """Go on until all blocks are done or the budget of instructions is used up."""
    m, out, clock = machines[0], results[0], clocks[0]
    while clock.issued < m.budget:
        if clock.fresh:
            start_blocks(nwarps, ntraces, total, starts, warps, scores, queues, blocks, bars, schedulers, clock)
        pick, again = -1, False
        for s in range(SCHEDULERS):
            if schedulers[s].dirty:
                choose(
                    s, nwarps, first, code, regs, words, warps, scores, queues, ends, blocks, schedulers, pipes, out, clock
                )  # fmt: skip
            if schedulers[s].best_warp >= 0 and (pick < 0 or schedulers[s].best < schedulers[pick].best):
                pick = s
        if clock.fresh:
            if clock.started < total:
                continue
            clock.fresh = 0
        if pick < 0:
            for s in range(SCHEDULERS):
                again = again or schedulers[s].dirty != 0
            if again:
                continue
            break
        scheduler, w = schedulers[pick], schedulers[pick].best_warp
        warp, instruction, r = warps[w], code[warps[w].ip], w // nwarps
        q, n, free = instruction.pipe, instruction.slots, max(warp.ready, scheduler.free)
        t = when_free(instruction, pick, free, pipes, clock)
        if t > scheduler.best + 1e-9:  # another scheduler was first at what they share
            scheduler.dirty = 1
            continue
        clock.now = t
        busy = out.l1_busy if q == costs.LSU else pipes[pick, q].busy if q <= costs.CBU else -1.0
        note_waiting(warp, instruction, t, free, scheduler, busy, stalls)
        if clock.issued < len(samples):
            keep_sample(samples[clock.issued], w, warp, t, t + n)
        clock.issued += 1
        out.slots += n
        scheduler.free = t + n
        scheduler.busy += n
        warp.since, warp.held = t + n, 0.0
        done, why, clock.waits = t + n - 1 + instruction.latency, WAIT, -1
        if q == costs.LSU:
            done, why = access(
                instruction, words, warp, w, queues, ends, blocks[r].copy, bars, r, m, out, clock, lines, touched, sites, t
            )  # fmt: skip
        elif q <= costs.CBU:
            pipe = pipes[pick, q]
            pipe.free = t + n * pipe.interval
            pipe.busy += n * pipe.interval
            done, why = t + n * pipe.interval - pipe.interval + instruction.latency, SHORT if q == costs.XU else WAIT
        for k in range(instruction.dests, instruction.regs_end):
            score = scores[w, regs[k]]
            score.time, score.why = done, why
        clock.last = max(clock.last, t + n)
        warp.ip, warp.reason = warp.ip + 1, TO_FETCH
        scheduler.dirty = 1
        if instruction.kind == P.MBARRIER:
            if clock.waits >= 0:
                warp.state, warp.awaited, warp.parity = AT_MBARRIER, clock.waits, clock.parity
            open_mbarriers(r * nwarps, (r + 1) * nwarps, warps, bars, r, schedulers, stalls)
        elif instruction.kind == P.BARRIER:
            warp.state, warp.barrier = AT_BARRIER, instruction.arg >> 16
            arrive(warp, r * nwarps, (r + 1) * nwarps, instruction.arg & 0xFFFF, warps, schedulers, stalls, t + n)
    out.cycles = max(clock.last, clock.now)
    out.l2_free, out.dram_free = clock.l2_free, clock.dram_free
    out.instructions, out.done = clock.issued, clock.finished


@dataclass(frozen=True)
class Outcome:
    """What a simulation gave."""

    result: np.record  # sm.RESULT
    stalls: np.ndarray  # cycles that warps waited, by reason
    by_line: np.ndarray  # by instruction and reason
    samples: np.recarray  # sm.SAMPLE: the first issues


def simulate(
    code, nregs: int, regs, first, words, starts, nwarps: int, ntraces: int, resident: int, total: int, machine,
    intervals, miss, rows: int = 0,
) -> Outcome:  # fmt: skip
    """Run `total` blocks, `resident` at once, on one SM; keep the first `rows` issues.

    code: sm.INSTRUCTION; first: (block of code) -> its first instruction; words, starts: traces of ntraces blocks of nwarps
    warps each, which are run in turn; machine: an array of one sm.MACHINE; intervals: (pipe) -> cycles from one instruction
    to the next; miss: (site) -> of first touches of sectors, the part that nobody brought to L2 before.
    """
    n = resident * nwarps
    blocks, bars = np.zeros(resident, sm.BLOCK), np.zeros((resident, M.MAX_MBARRIERS), sm.MBARRIER)
    blocks["fresh"] = 1
    schedulers, pipes = np.zeros(SCHEDULERS, sm.SCHEDULER), np.zeros((SCHEDULERS, len(intervals)), sm.PIPE)
    schedulers["dirty"], schedulers["best"], schedulers["best_warp"] = 1, NEVER, -1
    pipes["interval"] = intervals
    lines, sites = np.zeros(int(machine["sets"][0]) * sm.WAYS, sm.LINE), np.zeros(len(miss), sm.SITE)
    lines["tag"], lines["age"], sites["miss"] = -1, -1.0, miss
    out, clock = np.zeros(1, sm.RESULT), np.zeros(1, sm.CLOCK)
    clock["fresh"] = resident
    stalls, samples = np.zeros((len(code) + 1, len(sm.STALLS))), np.zeros(rows, sm.SAMPLE)
    steps(
        nwarps, ntraces, total, first, code, regs, words, starts, np.zeros(n, sm.WARP), np.zeros((n, max(nregs, 1)), sm.SCORE),
        np.zeros((2, n), sm.QUEUE), np.zeros((2, n, GROUPS)), blocks, bars, schedulers, pipes, lines,
        np.zeros(sm.TOUCHED, sm.TOUCH), sites, stalls, samples, machine, out, clock,
    )  # fmt: skip
    kept = samples[: int(clock["issued"][0])].view(np.recarray)
    return Outcome(out.view(np.recarray)[0], stalls[-1], stalls[:-1], kept)


def compile() -> None:
    """Have it compiled, or taken from the disk: simulate no blocks of a kernel of one instruction."""
    machine, none = np.zeros(1, sm.MACHINE), np.zeros(2, np.int64)
    machine["sets"], machine["budget"] = 1, 1
    simulate(np.zeros(1, sm.INSTRUCTION), 0, none, none, none, none, 1, 1, 1, 0, machine, np.ones(1), np.ones(1))
