"""Which lanes of a warp run next; barriers and warp operations as the compiled code leaves for them."""

import numpy as np

from ..jit import layout as L
from ..jit.raw import inner, load_i32, load_i64, load_u8, machine_function, store_i32, store_i64
from ..jit.state import (
    B_CLOCK,
    B_NAMED,
    B_PARTIAL,
    B_SYNCED,
    G_CLOCK,
    G_QUIET,
    G_WAITED,
    SYNC_DIVERGENT,
    SYNC_NOT_NAMED,
    SYNCCHECK,
    fault,
    grid_of,
    report,
    thread_of,
)  # fmt: skip


@inner
def start_group(w, pc, wait_bit):
    """Run the lanes that are at `pc`: their mask, and the lowest block at which others wait to be joined."""
    mask = 0
    stop = L.NO_STOP
    for lane in range(32):
        at = load_i32(w + 4 * lane)
        if at == (pc | wait_bit):
            mask |= 1 << lane
            store_i32(w + 4 * lane, pc)
        elif at < L.WAIT_WARP and at < stop:
            stop = at
    store_i32(w + L.MASK, mask)
    store_i32(w + L.STOP_AT, stop)
    store_i32(w + L.LAST_GROUP, pc)
    return pc


@machine_function("int32(int64)")
def vg_dispatch(w):
    """Next block of code for the warp, or -1 - status when none of its lanes can run."""
    lowest, after = L.NO_STOP, L.NO_STOP
    last = load_i32(w + L.LAST_GROUP)
    waiting, at_barrier = False, False
    for lane in range(32):
        at = load_i32(w + 4 * lane)
        if at < L.WAIT_WARP:
            lowest = min(lowest, at)
            if at > last:
                after = min(after, at)
        elif at != L.EXITED:
            if at & L.WAIT_BARRIER:
                at_barrier = True
            else:
                waiting = True
    if lowest != L.NO_STOP:
        if load_i32(w + L.SPUN):  # the group that ran last waits in a loop: let the next one run, out of turn
            store_i32(w + L.SPUN, 0)
            pc = after if after != L.NO_STOP else lowest
            start_group(w, pc, 0)
            store_i32(w + L.STOP_AT, L.NO_STOP)
            return pc
        return start_group(w, lowest, 0)
    if waiting:
        best = L.NO_STOP
        for lane in range(32):
            at = load_i32(w + 4 * lane)
            if at != L.EXITED and at & L.WAIT_WARP:
                mask = 0
                for other in range(32):
                    if load_i32(w + 4 * other) == at:
                        mask |= 1 << other
                if load_i64(w + L.WAITED + 8 * lane) != (mask | (load_i32(w + L.ALIVE) << 32)):
                    best = min(best, at & ~L.WAIT_WARP)
        if best != L.NO_STOP:
            return start_group(w, best, L.WAIT_WARP)
        return -1 - L.STATUS_STUCK
    if at_barrier:
        return -1 - L.STATUS_BARRIER
    return -1 - L.STATUS_DONE


@inner
def wait_lanes(w, mask, pc, site):
    """The group waits at a warp operation for lanes that are named but not here."""
    key = (mask & 0xFFFFFFFF) | (load_i32(w + L.ALIVE) << 32)
    store_i32(w + L.SYNC_SITE, site)
    store_i64(grid_of(w) + G_WAITED, 1)
    for lane in range(32):
        if mask >> lane & 1:
            store_i32(w + 4 * lane, pc | L.WAIT_WARP)
            store_i64(w + L.WAITED + 8 * lane, key)


@machine_function("void(int64,int32,int32,int32)")
def vg_wait_lanes(w, mask, pc, site):
    wait_lanes(w, mask, pc, site)


@machine_function("int32(int64,int32,int32,int32)")
def vg_members(w, active, pc, site):
    """Lanes come to a warp operation, each with its mask (at SCRATCH_VALUE): which of them run it now?

    -> a mask whose live lanes are all here with that same mask. The group is then theirs, with the lanes that only pass
    by; lanes with other masks stay at `pc`. 0 when there is none: all wait.
    """
    here, alive = load_i32(w + L.MASK), load_i32(w + L.ALIVE)
    if active == 0:
        return here
    for lane in range(32):
        if not active >> lane & 1:
            continue
        members, same = load_i32(w + L.SCRATCH_VALUE + 4 * lane), 0
        for other in range(32):
            if active >> other & 1 and load_i32(w + L.SCRATCH_VALUE + 4 * other) == members:
                same |= 1 << other
        if members & alive & ~same & 0xFFFFFFFF:
            continue
        others = active & ~same
        if others:
            for other in range(32):
                if others >> other & 1:
                    store_i32(w + 4 * other, pc)
            store_i32(w + L.MASK, here & ~others)
            store_i32(w + L.STOP_AT, min(load_i32(w + L.STOP_AT), pc))
        return members
    wait_lanes(w, here, pc, site)
    return 0


@machine_function("void(int64,int32,int32)")
def vg_not_named(w, lanes, site):
    """Lanes take part in a warp operation whose mask leaves them out."""
    for lane in range(32):
        if lanes >> lane & 1:
            report(
                grid_of(w),
                SYNCCHECK,
                SYNC_NOT_NAMED,
                site,
                -1,
                load_i64(w + L.BLOCK_INDEX),
                thread_of(w, lane),
                -1,
                -1,
                0,
                lanes,
            )
            return


@machine_function("void(int64,int32,int32,int32,int32)")
def vg_barrier(w, number, count, kind, site):
    """A group arrives at a barrier of the block; what it is goes into the warp's state for the scheduler."""
    g = grid_of(w)
    mask, alive = load_i32(w + L.MASK), load_i32(w + L.ALIVE)
    before = load_i32(w + L.BAR_KIND)
    first = True
    quiet = load_i64(g + G_QUIET)
    for lane in range(32 if mask != alive else 0):
        if alive >> lane & 1 and not mask >> lane & 1:
            at = load_i32(w + 4 * lane)
            if at & L.WAIT_BARRIER:
                first = False
            elif at & L.WAIT_WARP == 0 and load_u8(quiet + at) == 0 and at > load_i32(w + L.LAST_GROUP):
                # it has passed, or is on another way round: whether it comes here too is seen when the warp stops
                store_i32(w + L.DIVERGED, load_i32(w + L.DIVERGED) | (1 << lane))
    if not first and (load_i32(w + L.BAR_ID) != number or before != kind or load_i32(w + L.BAR_SITE) != site):
        lane = 0
        while not mask >> lane & 1:
            lane += 1
        report(
            g, SYNCCHECK, SYNC_DIVERGENT, site, load_i32(w + L.BAR_SITE), load_i64(w + L.BLOCK_INDEX), thread_of(w, lane),
            load_i64(w + L.BLOCK_INDEX), -1, 0, 0,
        )  # fmt: skip
    store_i32(w + L.BAR_ID, number)
    store_i32(w + L.BAR_COUNT, count)
    store_i32(w + L.BAR_KIND, kind)
    store_i32(w + L.SYNC_SITE, site)
    store_i32(w + L.BAR_SITE, site)
    if number < 0 or number > 15:
        fault(w, L.FAULT_TRAP, 0, site, number)


@inner
def next_epoch(w):
    """Start a new epoch of the warp: what it does from now on can be told from what it did before."""
    g = grid_of(w)
    b = load_i64(w + L.STATE)
    now = load_i64(g + G_CLOCK) + 1
    store_i64(g + G_CLOCK, now)
    store_i64(b + B_CLOCK + 8 * load_i32(w + L.WARPID), now)


@inner
def join_lanes(seen, mask, epoch):
    """The lanes of `mask` have now seen what each other did up to `epoch`, and what each other had seen."""
    for m in range(32):
        newest = np.int64(0)
        for k in range(32):
            if mask >> k & 1:
                newest = max(newest, load_i64(seen + 8 * (32 * k + m)))
        if mask >> m & 1:
            newest = max(newest, epoch)
        for k in range(32):
            if mask >> k & 1:
                store_i64(seen + 8 * (32 * k + m), newest)


@machine_function("void(int64,int32)")
def vg_syncwarp(w, mask):
    """bar.warp.sync orders the memory accesses of the lanes that take part."""
    b, warp = load_i64(w + L.STATE), load_i32(w + L.WARPID)
    epoch, partial = load_i64(b + B_CLOCK + 8 * warp), load_i64(b + B_PARTIAL)
    if mask == load_i32(w + L.ALIVE) or partial == 0:
        store_i64(b + B_SYNCED + 8 * warp, epoch)
    else:
        store_i64(b + B_NAMED, load_i64(b + B_NAMED) | 2)
        join_lanes(partial + 8 * 32 * 32 * warp, mask, epoch)
    next_epoch(w)


@machine_function("void(int64,int32,int32,int32)")
def vg_trap(w, mask, site, code):
    lane = 0
    while lane < 31 and not mask >> lane & 1:
        lane += 1
    if mask != 0:
        fault(w, code, lane, site, 0)
