"""Blocks and warps in turn: set-up, barriers, who runs next, when nothing can."""

import numpy as np

from ..jit import layout as L
from ..jit.raw import call_kernel, inner, load_i32, load_i64, store_i32, store_i64, store_u64
from ..jit.state import (
    AT_BARRIER,
    AT_GRID,
    B_ACC,
    B_ACQUIRED,
    B_ARRIVAL,
    B_ARRIVED,
    B_BARRIER,
    B_BASE,
    B_CLOCK,
    B_DONE,
    B_EXPECTED,
    B_INDEX,
    B_MARK,
    B_MEMBERS,
    B_NAMED,
    B_NWARPS,
    B_PAIR,
    B_PENDING_COPIES,
    B_RELEASED,
    B_STATUS,
    B_SYNCED,
    B_WARP_STRIDE,
    B_WARPS,
    B_WORK,
    DONE,
    G_CLOCK,
    G_GRID_BARRIER,
    G_KERNEL,
    G_WAITED,
    RUN,
    SYNC_BARRIER_COUNT,
    SYNC_DIVERGENT,
    SYNC_GRID,
    SYNC_MISSING_LANES,
    SYNC_STUCK,
    SYNCCHECK,
    fault,
    report,
)  # fmt: skip
from .copies import M_COUNT, run_bulk_stores

# Words of a worker's schedule (an int64 array)
(
    S_NEXT, S_STEP, S_NBLOCKS, S_GX, S_GY, S_GZ, S_BX, S_BY, S_BZ, S_FLAGS, S_COUNT_ALL, S_SAMPLE, S_FAULT_WARP, S_FINISHED,
    S_EVENTS, S_SPINNING, S_NSLOTS, S_OPEN, S_SMS, S_COUNTED, S_TRACE, S_TRACE_WORDS, S_ONLY,
) = (*range(11), 24, *range(12, 23))  # fmt: skip
S_WORK, S_WORK_MAX, S_WORK_SAMPLED = 28, 29, 30  # of all blocks, of the busiest one, of the sampled ones
S_WORDS = 32
SAMPLES = 4  # blocks that are counted and traced in any case: their indexes are words S_SAMPLE and on, -1 for none

FINISHED, CONTINUE, FAULTED, DEADLOCK = range(4)
QUANTUM, SPIN_QUANTUM = 1 << 15, 1 << 8  # backward branches before a warp gives way
ROUNDS = 1 << 12  # of all warps of a block before it gives way, so that a loop over a barrier cannot keep the machine
FRESH_SHARED = np.uint64(0xFFFFFFFFFFFFFFFF)  # NaN in every floating-point type, -1 in the integer ones


@inner
def next_mark(slot, first, nwarps):
    """The byte that says "written in this block" of local memory; the marks are only cleared when all have been used."""
    mark = load_i64(slot + B_MARK) + 1
    if mark > 255:
        mark = 1
        marks = load_i64(first + L.LOCAL_SHADOW)
        for k in range(4 * load_i32(first + L.LOCAL_BYTES) * nwarps):
            store_i64(marks + 8 * k, 0)
    store_i64(slot + B_MARK, mark)
    return mark


@inner
def start_block(slot, index, s, grid):
    """Set up a block's state and its warps' in a slot."""
    gx, gy = s[S_GX], s[S_GY]
    threads = s[S_BX] * s[S_BY] * s[S_BZ]
    nwarps = load_i64(slot + B_NWARPS)
    base = load_i64(grid + G_CLOCK) + 1
    store_i64(grid + G_CLOCK, base + 1)
    store_i64(slot + B_BASE, base)
    store_i64(slot + B_BARRIER, base)
    store_i64(slot + B_DONE, 0)
    store_i64(slot + B_INDEX, index)
    store_i64(slot + B_WORK, 0)
    if load_i64(slot + B_NAMED) & 1:
        for k in range(32 * 32):
            store_i64(slot + B_PAIR + 8 * k, 0)
    store_i64(slot + B_NAMED, 0)
    store_i64(slot + B_RELEASED, 0)
    store_i64(slot + B_ACQUIRED, 0)
    store_i64(slot + B_PENDING_COPIES, 0)
    store_i64(slot + M_COUNT, 0)
    for k in range(16):
        store_i64(slot + B_ARRIVED + 8 * k, 0)
        store_i64(slot + B_EXPECTED + 8 * k, 0)
        store_i64(slot + B_ACC + 8 * k, 0)
        store_i64(slot + B_MEMBERS + 8 * k, 0)
    flags = s[S_FLAGS]
    sample = -1
    for k in range(SAMPLES):
        if s[S_SAMPLE + k] == index:
            sample = k
    if s[S_COUNT_ALL] or sample >= 0:
        flags |= L.OBSERVE_COUNT
        s[S_COUNTED] += 1
    first, stride = load_i64(slot + B_WARPS), load_i64(slot + B_WARP_STRIDE)
    waited = load_i64(grid + G_WAITED) != 0
    shared, nshared = load_i64(first + L.SHARED), load_i32(first + L.SHARED_BYTES)
    for k in range((nshared + 7) // 8):
        store_u64(shared + 8 * k, FRESH_SHARED)
    mark = next_mark(slot, first, nwarps)
    for v in range(nwarps):
        w = first + v * stride
        store_i64(slot + B_STATUS + 8 * v, RUN)
        store_i64(slot + B_CLOCK + 8 * v, base + 1)
        store_i64(slot + B_SYNCED + 8 * v, base)
        existing = threads - v * 32
        alive = (1 << existing) - 1 if existing < 32 else 0xFFFFFFFF
        for lane in range(32):
            store_i32(w + 4 * lane, 0 if lane < existing else L.EXITED)
        if waited:
            for lane in range(32):
                store_i64(w + L.WAITED + 8 * lane, -1)
        store_i64(w + L.LOCAL_MARK, mark * 0x0101010101010101)
        store_i32(w + L.ALIVE, alive)
        store_i32(w + L.MASK, alive)
        store_i32(w + L.STOP_AT, L.NO_STOP)
        store_i32(w + L.LAST_GROUP, -1)
        store_i32(w + L.RESUME, 0)
        store_i32(w + L.SPUN, 0)
        store_i32(w + L.FAULT, 0)
        store_i32(w + L.DIVERGED, 0)
        store_i32(w + L.BAR_ACC, 0)
        store_i32(w + L.FLAGS, flags)
        store_i32(w + L.CTAID, index % gx)
        store_i32(w + L.CTAID + 4, index // gx % gy)
        store_i32(w + L.CTAID + 8, index // (gx * gy))
        store_i32(w + L.SMID, index % s[S_SMS])
        store_i64(w + L.BLOCK_INDEX, index)
        trace = 0
        if sample >= 0:
            trace = s[S_TRACE] + 8 * s[S_TRACE_WORDS] * (sample * nwarps + v)
            store_i64(w + L.TRACE_END, trace + 8 * (s[S_TRACE_WORDS] - 1))
        store_i64(w + L.TRACE, trace)
        a = load_i64(w + L.ASYNC)
        if a != 0:
            for k in range(65):
                store_i64(a + 8 * k, 0)


@inner
def prepare_slot(slot, nwarps, bx, by):
    """What stays the same for every block that runs in a slot: thread indexes and warp numbers."""
    first, stride = load_i64(slot + B_WARPS), load_i64(slot + B_WARP_STRIDE)
    for v in range(nwarps):
        w = first + v * stride
        store_i32(w + L.WARPID, v)
        for lane in range(32):
            t = v * 32 + lane
            store_i32(w + L.TID_X + 4 * lane, t % bx)
            store_i32(w + L.TID_Y + 4 * lane, t // bx % by)
            store_i32(w + L.TID_Z + 4 * lane, t // (bx * by))
            store_i64(w + L.WAITED + 8 * lane, -1)


@inner
def tick(grid):
    now = load_i64(grid + G_CLOCK) + 1
    store_i64(grid + G_CLOCK, now)
    return now


@inner
def wake(w):
    store_i32(w + L.BAR_ACC, 0)
    if load_i32(w + L.RESUME) >= 0:
        return
    for lane in range(32):
        at = load_i32(w + 4 * lane)
        if at != L.EXITED and at & L.WAIT_BARRIER:
            store_i32(w + 4 * lane, at & ~L.WAIT_BARRIER)


@inner
def learn(slot, v, u, nwarps):
    """Warp v has met warp u: it is ordered after all that u is ordered after."""
    for k in range(nwarps):
        p = slot + B_PAIR + 8 * (32 * v + k)
        store_i64(p, max(load_i64(p), load_i64(slot + B_PAIR + 8 * (32 * u + k))))


@inner
def let_go(slot, number, grid):
    """All that wait at a barrier go on; what each did before is ordered before what all do now."""
    nwarps = load_i64(slot + B_NWARPS)
    first, stride = load_i64(slot + B_WARPS), load_i64(slot + B_WARP_STRIDE)
    members = load_i64(slot + B_MEMBERS + 8 * number)
    acc = load_i64(slot + B_ACC + 8 * number)
    everyone = load_i64(slot + B_EXPECTED + 8 * number) == 0
    arrival = slot + B_ARRIVAL + 256 * number
    if everyone:
        store_i64(slot + B_BARRIER, tick(grid))
    else:
        store_i64(slot + B_NAMED, load_i64(slot + B_NAMED) | 1)
    for v in range(nwarps):
        if load_i64(slot + B_STATUS + 8 * v) != AT_BARRIER:
            continue
        w = first + v * stride
        if load_i32(w + L.BAR_ID) != number:
            continue
        store_i64(slot + B_STATUS + 8 * v, RUN)
        kind = load_i32(w + L.BAR_KIND)
        result = acc
        if kind == L.BAR_AND:
            result = 1 if acc == 0 else 0
        elif kind == L.BAR_OR:
            result = 1 if acc != 0 else 0
        store_i32(w + L.BAR_RESULT, result)
        wake(w)
        if not everyone:
            for u in range(nwarps):
                if members >> u & 1 and u != v:
                    p = slot + B_PAIR + 8 * (32 * v + u)
                    store_i64(p, max(load_i64(p), load_i64(arrival + 8 * u)))
                    learn(slot, v, u, nwarps)
        store_i64(slot + B_SYNCED + 8 * v, load_i64(slot + B_CLOCK + 8 * v))
        store_i64(slot + B_CLOCK + 8 * v, tick(grid))
    store_i64(slot + B_ARRIVED + 8 * number, 0)
    store_i64(slot + B_EXPECTED + 8 * number, 0)
    store_i64(slot + B_ACC + 8 * number, 0)
    store_i64(slot + B_MEMBERS + 8 * number, 0)


@inner
def check_divergence(w, grid):
    """All live lanes of a warp that waits must wait at the same place."""
    alive, diverged = load_i32(w + L.ALIVE), load_i32(w + L.DIVERGED)
    if diverged == 0 and (alive == 0 or load_i32(w + L.RESUME) >= 0):
        return
    if load_i32(w + L.RESUME) >= 0:
        alive_at = load_i32(w + L.RESUME)
        for lane in range(32):
            if alive >> lane & 1:
                store_i32(w + 4 * lane, alive_at | L.WAIT_BARRIER)
        store_i32(w + L.RESUME, -1)
    where, here, stray = -1, -1, -1
    for lane in range(32):
        at = load_i32(w + 4 * lane)
        if alive >> lane & 1:
            if where == -1:
                where, here = at, lane
            elif at != where:
                stray = lane
    for lane in range(32):
        if diverged >> lane & 1 and not alive >> lane & 1:
            stray = lane
    store_i32(w + L.DIVERGED, 0)
    if stray >= 0:
        block, warp = load_i64(w + L.BLOCK_INDEX), load_i32(w + L.WARPID)
        report(
            grid,
            SYNCCHECK,
            SYNC_DIVERGENT,
            load_i32(w + L.SYNC_SITE),
            -1,
            block,
            warp * 32 + here,
            block,
            warp * 32 + stray,
            0,
            0,
        )


@inner
def arrive(slot, v, w, grid):
    """A warp has come to a barrier."""
    check_divergence(w, grid)
    number, count, kind = load_i32(w + L.BAR_ID), load_i32(w + L.BAR_COUNT), load_i32(w + L.BAR_KIND)
    if kind == L.BAR_GRID:
        store_i64(slot + B_STATUS + 8 * v, AT_GRID)
        return
    store_i64(slot + B_ARRIVED + 8 * number, load_i64(slot + B_ARRIVED + 8 * number) + 32)
    store_i64(slot + B_ACC + 8 * number, load_i64(slot + B_ACC + 8 * number) + load_i32(w + L.BAR_ACC))
    store_i64(slot + B_MEMBERS + 8 * number, load_i64(slot + B_MEMBERS + 8 * number) | (1 << v))
    store_i64(slot + B_ARRIVAL + 256 * number + 8 * v, load_i64(slot + B_CLOCK + 8 * v))
    if count > 0:
        before = load_i64(slot + B_EXPECTED + 8 * number)
        if count & 31 or (before > 0 and before != count):
            block = load_i64(w + L.BLOCK_INDEX)
            report(
                grid, SYNCCHECK, SYNC_BARRIER_COUNT, load_i32(w + L.SYNC_SITE), -1, block, v * 32, -1, -1, count, before
            )
        store_i64(slot + B_EXPECTED + 8 * number, (count + 31) & ~31)
    if kind == L.BAR_ARRIVE:
        wake(w)
        store_i64(slot + B_CLOCK + 8 * v, tick(grid))
    else:
        store_i64(slot + B_STATUS + 8 * v, AT_BARRIER)
        store_i32(w + L.BAR_ACC, 0)


@inner
def open_barriers(slot, grid):
    """Let go every barrier at which enough have arrived. -> number of barriers opened."""
    nwarps, done = load_i64(slot + B_NWARPS), load_i64(slot + B_DONE)
    opened = 0
    for number in range(16):
        arrived = load_i64(slot + B_ARRIVED + 8 * number)
        if arrived == 0:
            continue
        expected = load_i64(slot + B_EXPECTED + 8 * number)
        if expected == 0:
            waiting = 0
            members = load_i64(slot + B_MEMBERS + 8 * number)
            for v in range(nwarps):
                if members >> v & 1:
                    waiting += 1
            if waiting == nwarps - done:
                let_go(slot, number, grid)
                opened += 1
        elif arrived >= expected:
            let_go(slot, number, grid)
            opened += 1
    return opened


@inner
def run_warp(slot, v, w, s, grid):
    """-> (an event other than giving way, gave way while waiting in a loop, fault)."""
    quantum = SPIN_QUANTUM if load_i32(w + L.SPUN) else QUANTUM
    store_i32(w + L.BUDGET, quantum)
    status = call_kernel(load_i64(grid + G_KERNEL), w)
    left = load_i32(w + L.BUDGET)
    turns = quantum - left if left >= -1 else 0  # below: something made it give way
    store_i64(slot + B_WORK, load_i64(slot + B_WORK) + 1 + turns)
    if load_i32(w + L.FAULT) != 0:
        s[S_FAULT_WARP] = w
        return True, False, True
    if status == L.STATUS_DONE:
        if load_i64(w + L.ASYNC) != 0:
            run_bulk_stores(w, np.int32(-1), -1)
        check_divergence(w, grid)
        store_i64(slot + B_STATUS + 8 * v, DONE)
        store_i64(slot + B_DONE, load_i64(slot + B_DONE) + 1)
        return True, False, False
    if status == L.STATUS_BARRIER:
        arrive(slot, v, w, grid)
        return True, False, False
    if status == L.STATUS_STUCK:
        lane = 0
        while lane < 31 and not (load_i32(w + 4 * lane) & L.WAIT_WARP and load_i32(w + 4 * lane) != L.EXITED):
            lane += 1
        block = load_i64(w + L.BLOCK_INDEX)
        here = load_i32(w + 4 * lane) & ~L.WAIT_WARP
        there, stray = np.int64(-1), np.int64(-1)
        for other in range(32):
            at = load_i32(w + 4 * other)
            if at != L.EXITED and at & ~L.WAIT_MASK != here and stray < 0:
                stray = np.int64(v * 32 + other)
                there = np.int64(at & ~L.WAIT_WARP) if at & L.WAIT_WARP else np.int64(-1)
        site = load_i32(w + L.SYNC_SITE)
        bar = load_i32(w + L.BAR_SITE) if there < 0 and stray >= 0 else -1
        report(grid, SYNCCHECK, SYNC_MISSING_LANES, site, bar, block, v * 32 + lane, block, stray, here, there)
        fault(w, L.FAULT_DEADLOCK, lane, site, 0)
        s[S_FAULT_WARP] = w
        return True, False, True
    return False, load_i32(w + L.SPUN) != 0, False


BLOCK_DONE, BLOCK_YIELD, BLOCK_SPIN, BLOCK_GRID, BLOCK_FAULT, BLOCK_STUCK = range(6)


@inner
def run_block(slot, s, grid):
    """Run a block's warps in turn until it is done, waits for others, or has had its share."""
    nwarps = load_i64(slot + B_NWARPS)
    first, stride = load_i64(slot + B_WARPS), load_i64(slot + B_WARP_STRIDE)
    spins, yields = 0, 0
    for _ in range(ROUNDS):
        ran, events, spun, plain = 0, 0, 0, 0
        for v in range(nwarps):
            if load_i64(slot + B_STATUS + 8 * v) != RUN:
                continue
            ran += 1
            event, waits, bad = run_warp(slot, v, first + v * stride, s, grid)
            if bad:
                return BLOCK_FAULT
            if event:
                events += 1
            elif waits:
                spun += 1
            else:
                plain += 1
        events += open_barriers(slot, grid)
        s[S_EVENTS] += events
        if load_i64(slot + B_DONE) == nwarps:
            return BLOCK_DONE
        if ran == 0 and events == 0:
            for v in range(nwarps):
                if load_i64(slot + B_STATUS + 8 * v) == AT_GRID:
                    return BLOCK_GRID
            return BLOCK_STUCK
        if events == 0 and plain == 0:
            spins += 1
            if spins >= 2:
                return BLOCK_SPIN
        else:
            spins = 0
        yields += plain
        if yields > 64:
            return BLOCK_YIELD
    return BLOCK_YIELD


@inner
def report_stuck(slot, s, grid):
    """Nobody in the block can go on: who waits where."""
    nwarps = load_i64(slot + B_NWARPS)
    first, stride = load_i64(slot + B_WARPS), load_i64(slot + B_WARP_STRIDE)
    one, other = -1, -1
    for v in range(nwarps):
        if load_i64(slot + B_STATUS + 8 * v) == AT_BARRIER:
            if one == -1:
                one = v
            elif other == -1 and load_i32(first + v * stride + L.SYNC_SITE) != load_i32(
                first + one * stride + L.SYNC_SITE
            ):
                other = v
    w = first + max(one, 0) * stride
    site = load_i32(w + L.SYNC_SITE)
    block = load_i64(slot + B_INDEX)
    other_site = load_i32(first + other * stride + L.SYNC_SITE) if other >= 0 else -1
    report(
        grid,
        SYNCCHECK,
        SYNC_STUCK,
        site,
        other_site,
        block,
        max(one, 0) * 32,
        block,
        other * 32 if other >= 0 else -1,
        0,
        0,
    )
    fault(w, L.FAULT_DEADLOCK, 0, site, 0)
    s[S_FAULT_WARP] = w


@inner
def report_grid_stuck(slots, active, s, grid):
    """Blocks wait for the whole grid, and some block has ended, or cannot start, without coming to the barrier."""
    for k in range(s[S_NSLOTS]):
        if active[k] == 0:
            continue
        slot = slots[k]
        first, stride = load_i64(slot + B_WARPS), load_i64(slot + B_WARP_STRIDE)
        for v in range(load_i64(slot + B_NWARPS)):
            w = first + v * stride
            if load_i64(slot + B_STATUS + 8 * v) == AT_GRID and s[S_FAULT_WARP] == 0:
                site = load_i32(w + L.SYNC_SITE)
                report(grid, SYNCCHECK, SYNC_GRID, site, -1, load_i64(slot + B_INDEX), v * 32, -1, -1, 0, 0)
                fault(w, L.FAULT_DEADLOCK, 0, site, 0)
                s[S_FAULT_WARP] = w


@inner
def open_grid_barrier(slots, active, s, grid):
    """All blocks of a cooperative launch have arrived: let them go on together."""
    n = s[S_NSLOTS]
    store_i64(grid + G_GRID_BARRIER, tick(grid))  # accesses before it are ordered before all that follow
    for k in range(n):
        if active[k] == 0:
            continue
        slot = slots[k]
        first, stride = load_i64(slot + B_WARPS), load_i64(slot + B_WARP_STRIDE)
        store_i64(slot + B_BARRIER, tick(grid))
        for v in range(load_i64(slot + B_NWARPS)):
            if load_i64(slot + B_STATUS + 8 * v) == AT_GRID:
                store_i64(slot + B_STATUS + 8 * v, RUN)
                wake(first + v * stride)
                store_i64(slot + B_CLOCK + 8 * v, tick(grid))


@inner
def skip_to_sample(s):
    while s[S_NEXT] < s[S_NBLOCKS]:
        for k in range(SAMPLES):
            if s[S_SAMPLE + k] == s[S_NEXT]:
                return
        s[S_NEXT] += s[S_STEP]


@inner
def note_work(slot, s):
    """How much a block did, in backward branches and calls of its warps: what tells a busy block from an idle one."""
    work, index = load_i64(slot + B_WORK), load_i64(slot + B_INDEX)
    s[S_WORK] += work
    s[S_WORK_MAX] = max(s[S_WORK_MAX], work)
    for k in range(SAMPLES):
        if s[S_SAMPLE + k] == index:
            s[S_WORK_SAMPLED] += work


@inner
def run_grid(s, slots, active, grid):
    """Run blocks for a while. -> FINISHED, CONTINUE (call again), FAULTED or DEADLOCK."""
    n = s[S_NSLOTS]
    turns = 0
    while True:
        used, spinning, at_grid = 0, 0, 0
        for k in range(n):
            if active[k] == 0:
                if s[S_ONLY]:
                    skip_to_sample(s)
                if s[S_NEXT] >= s[S_NBLOCKS] or k >= s[S_OPEN]:
                    continue
                start_block(slots[k], s[S_NEXT], s, grid)
                s[S_NEXT] += s[S_STEP]
                active[k] = 1
            used += 1
            outcome = run_block(slots[k], s, grid)
            turns += 1
            if outcome == BLOCK_DONE:
                active[k] = 0
                note_work(slots[k], s)
                s[S_FINISHED] += 1
            elif outcome == BLOCK_FAULT:
                return FAULTED
            elif outcome == BLOCK_SPIN:
                spinning += 1
            elif outcome == BLOCK_GRID:
                at_grid += 1
            elif outcome == BLOCK_STUCK:
                report_stuck(slots[k], s, grid)
                return DEADLOCK
            else:
                return CONTINUE
        if used == 0:
            return FINISHED
        if spinning + at_grid == used:
            if s[S_OPEN] < n and s[S_NEXT] < s[S_NBLOCKS]:
                s[S_OPEN] += 1  # it may wait for a block that has not started: make room for one more
            elif at_grid == used:
                if s[S_NEXT] < s[S_NBLOCKS] or s[S_FINISHED] > 0:
                    report_grid_stuck(slots, active, s, grid)
                    return DEADLOCK
                open_grid_barrier(slots, active, s, grid)
            elif turns > 16 * used:
                s[S_SPINNING] = 1
                return CONTINUE
        if turns > 4096:
            return CONTINUE
