"""Asynchronous copies and mbarriers (PTX ISA: "Data Movement: cp.async", "cp.async.bulk", "mbarrier").

A copy's source is read when it is issued; its destination is written when somebody waits for it, so that a missing wait
shows every time. Until then the destination's shadow says that a copy is under way.

Pending copies are kept for each warp: a word with their number, 32 words with the current group of each lane, 32 with its
bulk group, then rows of COPY_BYTES.
"""

import numpy as np

from ..jit import layout as L
from ..jit.raw import inner, load_i32, load_i64, load_u8, machine_function, store_i32, store_i64, store_u8
from ..jit.state import (
    B_BARRIER,
    B_BASE,
    B_CLOCK,
    B_INDEX,
    B_NAMED,
    B_NWARPS,
    B_PAIR,
    B_PENDING_COPIES,
    B_SHADOW_R0,
    B_SHADOW_W,
    B_SYNCED,
    B_WARP_STRIDE,
    B_WARPS,
    BLOCK_BYTES,
    G_SHARED_SHIFT,
    GIVE_WAY,
    RACE_SOURCE,
    RACE_WAR,
    RACE_WAW,
    RACECHECK,
    SYNC_MBARRIER,
    SYNCCHECK,
    fault,
    grid_of,
    report,
    thread_of,
)  # fmt: skip
from ..sanitize.race import IN_FLIGHT, MANY_BIT, SHARED_SITES, crowd_is_over, ordered, party
from .count import count_bulk, trace_mbarrier
from .dispatch import next_epoch
from .observe import observe
from .slow import resolve

MAX_COPIES = 2048  # under way in one warp
COPY_BYTES = 80
K_LANE, K_GROUP, K_DST, K_SIZE, K_SRC, K_SITE, K_KIND, K_MBAR, K_DATA = 0, 8, 16, 24, 32, 40, 48, 56, 64
A_COUNT, A_GROUP, A_BULK, A_ROWS = 0, 8, 264, 520
ASYNC_BYTES = A_ROWS + MAX_COPIES * COPY_BYTES
LDGSTS, ARRIVE, BULK_LOAD, BULK_STORE = range(4)

MAX_MBARRIERS = 64
M_COUNT = BLOCK_BYTES  # after the block's state: number, addresses, vector clocks
M_ADDRESS = M_COUNT + 8
M_CLOCKS = M_ADDRESS + 8 * MAX_MBARRIERS
M_UNSEEN = M_CLOCKS + 8 * 32 * MAX_MBARRIERS  # 1 from the end of a phase until somebody has waited for it
M_INIT = M_UNSEEN + 8 * MAX_MBARRIERS  # who has initialised it: epoch << 32 | site << 10 | thread
M_ENDED = M_INIT + 8 * MAX_MBARRIERS  # whose arrival ended the last phase, in the same way; 0: nobody's
MBARRIER_BYTES = 8 + 4 * 8 * MAX_MBARRIERS + 8 * 32 * MAX_MBARRIERS
BLOCK_TOTAL = BLOCK_BYTES + MBARRIER_BYTES


@inner
def mark(w, offset, nbytes, epoch, thread, site):
    """Set the shadow of shared words that a copy writes."""
    b, g = load_i64(w + L.STATE), grid_of(w)
    writes = load_i64(b + B_SHADOW_W)
    if writes == 0 or nbytes <= 0:
        return
    shift = load_i64(g + G_SHARED_SHIFT)
    for word in range(offset >> shift, (offset + nbytes - 1 >> shift) + 1):
        store_i64(writes + 8 * word, (epoch << 32) | (site << 10) | thread)


@inner
def own_epoch(w):
    return load_i64(load_i64(w + L.STATE) + B_CLOCK + 8 * load_i32(w + L.WARPID))


@inner
def shared_offset(address):
    """Shared-space address of a destination given as such or as a generic one."""
    return address & 0xFFFFFFFF if (address >> L.WINDOW_SHIFT) & 0xFF == 1 else address


@inner
def add_copy(w, lane, group, dst, size, src, site, kind, mbar):
    """A new row, or 0 when there are too many."""
    a = load_i64(w + L.ASYNC)
    n = load_i64(a + A_COUNT)
    if n >= MAX_COPIES:
        fault(w, L.FAULT_OVERFLOW, lane, site, n)
        return 0
    row = a + A_ROWS + n * COPY_BYTES
    store_i64(a + A_COUNT, n + 1)
    store_i64(row + K_LANE, lane)
    store_i64(row + K_GROUP, group)
    store_i64(row + K_DST, dst)
    store_i64(row + K_SIZE, size)
    store_i64(row + K_SRC, src)
    store_i64(row + K_SITE, site)
    store_i64(row + K_KIND, kind)
    store_i64(row + K_MBAR, mbar)
    return row


@inner
def check_free(w, dst, size, lane, site):
    """A copy into words that others may still be reading or writing."""
    b, g, thread = load_i64(w + L.STATE), grid_of(w), thread_of(w, lane)
    shift, base, block = load_i64(g + G_SHARED_SHIFT), load_i64(b + B_BASE), load_i64(b + B_INDEX)
    writes, reads = load_i64(b + B_SHADOW_W), load_i64(b + B_SHADOW_R0)
    for word in range(dst >> shift, (dst + size - 1 >> shift) + 1):
        last, before = load_i64(writes + 8 * word), load_i64(reads + 8 * word)
        epoch, other = (last >> 32) & 0x3FFFFFFF, last & 1023
        if epoch == IN_FLIGHT:
            if other != thread:
                report(g, RACECHECK, RACE_WAW, site, (last >> 10) & SHARED_SITES, block, thread, block, other, dst, 0)
        elif last != 0 and epoch >= base and not ordered(b, thread, epoch, other):
            report(g, RACECHECK, RACE_WAW, site, (last >> 10) & SHARED_SITES, block, thread, block, other, dst, 0)
        epoch, other = (before >> 32) & 0x3FFFFFFF, before & 1023
        if before != 0 and epoch >= base:
            if not ordered(b, thread, epoch, other) or not crowd_is_over(
                b, other, epoch, before & MANY_BIT != 0, False
            ):
                report(
                    g,
                    RACECHECK,
                    RACE_WAR,
                    site,
                    (before >> 10) & SHARED_SITES,
                    block,
                    thread,
                    block,
                    party(thread, other, True),
                    dst,
                    0,
                )


@machine_function("void(int64,int32,int32,int32)")
def vg_cp_async(w, mask, site, size):
    reading = 0
    for lane in range(32):
        if mask >> lane & 1 and load_i64(w + L.SCRATCH_VALUE + 8 * lane) > 0:
            reading |= 1 << lane
    if reading:
        observe(w, np.int32(reading), site, size, L.LOAD, L.SPACE_GLOBAL)
    a = load_i64(w + L.ASYNC)
    for lane in range(32):
        if not mask >> lane & 1:
            continue
        limit = min(size, load_i64(w + L.SCRATCH_VALUE + 8 * lane))
        src = load_i64(w + L.SCRATCH_ADDRESS + 8 * lane)
        dst = shared_offset(load_i64(w + L.SCRATCH_EXTRA + 8 * lane))
        p = 0
        if limit > 0:
            p = resolve(w, lane, src, limit, L.SPACE_GENERIC, site, 1)
            if src & (size - 1):
                fault(w, L.FAULT_MISALIGNED, lane, site, src)
                continue
        if resolve(w, lane, dst, size, L.SPACE_SHARED, site, size) == 0 or (limit > 0 and p == 0):
            continue
        row = add_copy(w, lane, load_i64(a + A_GROUP + 8 * lane), dst, size, p, site, LDGSTS, limit)
        if row == 0:
            return
        for k in range(size):
            store_u8(row + K_DATA + k, load_u8(p + k) if k < limit else np.uint8(0))
        if load_i32(w + L.FLAGS) & L.OBSERVE_RACE:
            check_free(w, dst, size, lane, site)
            mark(w, dst, size, IN_FLIGHT, thread_of(w, lane), site)


@inner
def finish_copy(w, row, wait_site):
    """Write a cp.async's destination."""
    lane, dst, size = load_i64(row + K_LANE), load_i64(row + K_DST), load_i64(row + K_SIZE)
    p, limit = load_i64(row + K_SRC), load_i64(row + K_MBAR)
    target = load_i64(w + L.SHARED) + dst
    changed = False
    for k in range(size):
        byte = load_u8(row + K_DATA + k)
        if k < limit and load_u8(p + k) != byte:
            changed = True
        store_u8(target + k, byte)
    site = load_i64(row + K_SITE)
    if load_i32(w + L.FLAGS) & (L.OBSERVE_RACE | L.OBSERVE_INIT):
        mark(w, dst, size, own_epoch(w), thread_of(w, lane), site)
        if changed:
            b = load_i64(w + L.STATE)
            block = load_i64(b + B_INDEX)
            report(grid_of(w), RACECHECK, RACE_SOURCE, site, wait_site, block, thread_of(w, lane), block, -1, p, 0)


@inner
def remove_done(w):
    """Close the gaps that finished rows (kind -1) leave."""
    a = load_i64(w + L.ASYNC)
    n, kept = load_i64(a + A_COUNT), 0
    for k in range(n):
        row = a + A_ROWS + k * COPY_BYTES
        if load_i64(row + K_KIND) >= 0:
            if kept != k:
                to = a + A_ROWS + kept * COPY_BYTES
                for j in range(COPY_BYTES // 8):
                    store_i64(to + 8 * j, load_i64(row + 8 * j))
            kept += 1
    store_i64(a + A_COUNT, kept)


@machine_function("void(int64,int32)")
def vg_cp_commit(w, mask):
    a = load_i64(w + L.ASYNC)
    for lane in range(32):
        if mask >> lane & 1:
            store_i64(a + A_GROUP + 8 * lane, load_i64(a + A_GROUP + 8 * lane) + 1)


@machine_function("void(int64,int32,int32,int32)")
def vg_cp_wait(w, mask, newest, site):
    """All groups of each lane but its `newest` last committed ones are over."""
    a = load_i64(w + L.ASYNC)
    for k in range(load_i64(a + A_COUNT)):
        row = a + A_ROWS + k * COPY_BYTES
        lane = load_i64(row + K_LANE)
        if load_i64(row + K_KIND) == LDGSTS and mask >> lane & 1:
            if load_i64(row + K_GROUP) < load_i64(a + A_GROUP + 8 * lane) - newest:
                finish_copy(w, row, site)
                store_i64(row + K_KIND, -1)
    remove_done(w)


# ---------------------------------------------------------------- mbarrier
PENDING, EXPECTED_SHIFT, TX_SHIFT, TX_BIAS = 0xFFFFF, 20, 40, 1 << 22
INIT, INVAL, ARRIVE_ONE, ARRIVE_DROP, TEST, TEST_PARITY, EXPECT, ARRIVE_EXPECT, PENDING_COUNT, COMPLETE = range(10)
ARRIVE_COPIED, ARRIVE_COPIED_INC = 10, 11  # cp.async.mbarrier.arrive, in traces only


@inner
def pack(phase, tx, expected, pending):
    word = ((tx + TX_BIAS) << TX_SHIFT) | (expected << EXPECTED_SHIFT) | pending
    return word | (np.int64(phase) << 63)


@inner
def stamp(w, lane, site):
    """Who does something now: epoch << 32 | site << 10 | thread."""
    return (own_epoch(w) << 32) | (site << 10) | thread_of(w, lane)


@inner
def unordered(b, thread, entry):
    """What `entry` stamps is not over before what `thread` does now."""
    return not ordered(b, thread, (entry >> 32) & 0x3FFFFFFF, entry & 1023)


@inner
def check_use(w, b, number, lane, site, arrives):
    """A thread uses an mbarrier: it has to know that it is initialised, and an arrival that the last phase is over."""
    if load_i32(w + L.FLAGS) & L.OBSERVE_RACE == 0:
        return
    thread, block = thread_of(w, lane), load_i64(b + B_INDEX)
    made, ended = load_i64(b + M_INIT + 8 * number), load_i64(b + M_ENDED + 8 * number)
    if unordered(b, thread, made):
        report(
            grid_of(w),
            SYNCCHECK,
            SYNC_MBARRIER,
            site,
            (made >> 10) & SHARED_SITES,
            block,
            thread,
            block,
            made & 1023,
            0,
            5,
        )
        store_i64(b + M_INIT + 8 * number, 0)  # it has been said
    elif arrives and ended != 0 and (ended & 1023) >> 5 != thread >> 5 and unordered(b, thread, ended):
        report(
            grid_of(w),
            SYNCCHECK,
            SYNC_MBARRIER,
            site,
            (ended >> 10) & SHARED_SITES,
            block,
            thread,
            block,
            ended & 1023,
            0,
            6,
        )


@inner
def number_of(b, address):
    """Row of an initialised mbarrier, or -1."""
    for k in range(load_i64(b + M_COUNT)):
        if load_i64(b + M_ADDRESS + 8 * k) == address:
            return k
    return -1


@inner
def change(w, b, number, p, arrivals, tx_change, drop, lane, site):
    """Arrivals and bytes at a barrier; the phase turns over when neither is outstanding. -> state before (the token)."""
    word = load_i64(p)
    phase, tx = (word >> 63) & 1, ((word >> TX_SHIFT) & 0x7FFFFF) - TX_BIAS
    expected, pending = (word >> EXPECTED_SHIFT) & PENDING, word & PENDING
    before = word
    if drop:
        expected -= arrivals
    tx += tx_change
    if arrivals > pending:
        report(
            grid_of(w),
            SYNCCHECK,
            SYNC_MBARRIER,
            site,
            -1,
            load_i64(b + B_INDEX),
            thread_of(w, lane),
            -1,
            -1,
            pending,
            1,
        )
        return before
    pending -= arrivals
    if pending == 0 and tx == 0:
        phase ^= 1
        pending = expected
        store_i64(b + M_UNSEEN + 8 * number, 1)
        store_i64(b + M_ENDED + 8 * number, stamp(w, lane, site) if arrivals else 0)
    store_i64(p, pack(phase, tx, expected, pending))
    return before


@inner
def release(w, b, number):
    """An arrival publishes what the warp did, and has seen, to those who wait for the phase."""
    warp = load_i32(w + L.WARPID)
    clocks = b + M_CLOCKS + 256 * number
    for v in range(load_i64(b + B_NWARPS)):
        own = (
            load_i64(b + B_CLOCK + 8 * v)
            if v == warp
            else max(load_i64(b + B_BARRIER), load_i64(b + B_PAIR + 8 * (32 * warp + v)))
        )
        store_i64(clocks + 8 * v, max(load_i64(clocks + 8 * v), own))


@inner
def acquire(w, b, number):
    warp = load_i32(w + L.WARPID)
    clocks = b + M_CLOCKS + 256 * number
    store_i64(b + B_NAMED, load_i64(b + B_NAMED) | 1)
    synced = b + B_SYNCED + 8 * warp
    store_i64(synced, max(load_i64(synced), load_i64(clocks + 8 * warp)))
    for v in range(load_i64(b + B_NWARPS)):
        p = b + B_PAIR + 8 * (32 * warp + v)
        store_i64(p, max(load_i64(p), load_i64(clocks + 8 * v)))


@inner
def run_attached(w, b, address):
    """Copies of any warp of the block that complete on this mbarrier happen now."""
    if load_i64(b + B_PENDING_COPIES) == 0:
        return
    number = number_of(b, address)
    first, stride = load_i64(b + B_WARPS), load_i64(b + B_WARP_STRIDE)
    for k in range(load_i64(b + B_NWARPS)):
        other = first + k * stride
        a = load_i64(other + L.ASYNC)
        found = False
        for r in range(load_i64(a + A_COUNT)):
            row = a + A_ROWS + r * COPY_BYTES
            kind = load_i64(row + K_KIND)
            if (kind != ARRIVE and kind != BULK_LOAD) or load_i64(row + K_MBAR) != address:
                continue
            found = True
            lane, site = load_i64(row + K_LANE), load_i64(row + K_SITE)
            p = load_i64(w + L.SHARED) + address
            if kind == ARRIVE:
                for q in range(r):
                    earlier = a + A_ROWS + q * COPY_BYTES
                    if load_i64(earlier + K_KIND) == LDGSTS and load_i64(earlier + K_LANE) == lane:
                        finish_copy(other, earlier, site)
                        store_i64(earlier + K_KIND, -1)
                release(other, b, number)
                change(other, b, number, p, 1, 0, False, lane, site)
            else:
                size, dst = load_i64(row + K_SIZE), load_i64(row + K_DST)
                for j in range(size):
                    store_u8(load_i64(w + L.SHARED) + dst + j, load_u8(load_i64(row + K_SRC) + j))
                mark(other, dst, size, load_i64(b + B_BASE), thread_of(other, lane), site)
                change(other, b, number, p, 0, -size, False, lane, site)
            store_i64(row + K_KIND, -1)
            store_i64(b + B_PENDING_COPIES, load_i64(b + B_PENDING_COPIES) - 1)
        if found:
            remove_done(other)


@inner
def trace_lanes(w, mask, site, code):
    """Tell the trace: once for neighbouring lanes at one mbarrier."""
    at, arrivals, nbytes = np.int64(-1), np.int64(0), np.int64(0)
    for lane in range(32):
        if not mask >> lane & 1:
            continue
        address = shared_offset(load_i64(w + L.SCRATCH_ADDRESS + 8 * lane))
        operand = load_i64(w + L.SCRATCH_VALUE + 8 * lane)
        if address != at:
            if at >= 0:
                trace_mbarrier(w, site, code, at, arrivals, nbytes)
            at, arrivals, nbytes = address, np.int64(0), np.int64(0)
        if code == INIT:
            arrivals = operand
        elif code == TEST:
            arrivals = (operand >> 63) & 1
        elif code == TEST_PARITY:
            arrivals = operand & 1
        elif code == EXPECT or code == COMPLETE:
            nbytes += operand
        elif code == ARRIVE_EXPECT:
            arrivals += 1
            nbytes += operand
        else:
            arrivals += 1 if code >= ARRIVE_COPIED else operand
    if at >= 0:
        trace_mbarrier(w, site, code, at, arrivals, nbytes)


@machine_function("void(int64,int32,int32,int32)")
def vg_mbarrier(w, mask, site, code):
    """Operands at SCRATCH_VALUE (count, bytes, token or parity); results at SCRATCH_VALUE + 256."""
    b, g = load_i64(w + L.STATE), grid_of(w)
    if load_i64(w + L.TRACE) != 0:
        trace_lanes(w, mask, site, code)
    released = False
    for lane in range(32):
        if not mask >> lane & 1:
            continue
        address = shared_offset(load_i64(w + L.SCRATCH_ADDRESS + 8 * lane))
        operand = load_i64(w + L.SCRATCH_VALUE + 8 * lane)
        result = w + L.SCRATCH_VALUE + 256 + 8 * lane
        store_i64(result, 0)
        p = resolve(w, lane, address, 8, L.SPACE_SHARED, site, 8)
        if p == 0:
            continue
        number = number_of(b, address)
        if code == INIT:
            if operand <= 0 or operand > PENDING:
                report(
                    g, SYNCCHECK, SYNC_MBARRIER, site, -1, load_i64(b + B_INDEX), thread_of(w, lane), -1, -1, operand, 2
                )
                continue
            if number >= 0:
                report(
                    g, SYNCCHECK, SYNC_MBARRIER, site, -1, load_i64(b + B_INDEX), thread_of(w, lane), -1, -1, address, 3
                )
            else:
                number = load_i64(b + M_COUNT)
                if number >= MAX_MBARRIERS:
                    fault(w, L.FAULT_MBARRIER, lane, site, number)
                    continue
                store_i64(b + M_COUNT, number + 1)
                store_i64(b + M_ADDRESS + 8 * number, address)
                store_i64(b + M_UNSEEN + 8 * number, 0)
                store_i64(b + M_INIT + 8 * number, stamp(w, lane, site))
                store_i64(b + M_ENDED + 8 * number, 0)
                for v in range(32):
                    store_i64(b + M_CLOCKS + 256 * number + 8 * v, 0)
            store_i64(p, pack(0, 0, operand, operand))
            mark(w, address, 8, own_epoch(w), thread_of(w, lane), site)
            continue
        if number < 0:
            report(g, SYNCCHECK, SYNC_MBARRIER, site, -1, load_i64(b + B_INDEX), thread_of(w, lane), -1, -1, address, 0)
            continue
        if code != PENDING_COUNT:
            check_use(w, b, number, lane, site, code == ARRIVE_ONE or code == ARRIVE_DROP or code == ARRIVE_EXPECT)
        if code == INVAL:
            last = load_i64(b + M_COUNT) - 1
            store_i64(b + M_UNSEEN + 8 * number, load_i64(b + M_UNSEEN + 8 * last))
            store_i64(b + M_INIT + 8 * number, load_i64(b + M_INIT + 8 * last))
            store_i64(b + M_ENDED + 8 * number, load_i64(b + M_ENDED + 8 * last))
            store_i64(b + M_ADDRESS + 8 * number, load_i64(b + M_ADDRESS + 8 * last))
            for v in range(32):
                store_i64(b + M_CLOCKS + 256 * number + 8 * v, load_i64(b + M_CLOCKS + 256 * last + 8 * v))
            store_i64(b + M_COUNT, last)
            continue
        if code == TEST or code == TEST_PARITY:
            run_attached(w, b, address)
            phase = (load_i64(p) >> 63) & 1
            waited = (operand >> 63) & 1 if code == TEST else operand & 1
            if phase != waited:
                store_i64(result, 1)
                store_i64(b + M_UNSEEN + 8 * number, 0)
                acquire(w, b, number)
            else:
                store_i32(w + L.BUDGET, GIVE_WAY)  # gives way at the next turn of the waiting loop
            continue
        if code == EXPECT:
            change(w, b, number, p, 0, operand, False, lane, site)
        elif code == COMPLETE:
            change(w, b, number, p, 0, -operand, False, lane, site)
        else:
            if load_i64(b + M_UNSEEN + 8 * number):
                report(
                    g, SYNCCHECK, SYNC_MBARRIER, site, -1, load_i64(b + B_INDEX), thread_of(w, lane), -1, -1, address, 4
                )
            release(w, b, number)
            released = True
            if code == ARRIVE_EXPECT:
                change(w, b, number, p, 0, operand, False, lane, site)
                token = change(w, b, number, p, 1, 0, False, lane, site)
            else:
                token = change(w, b, number, p, operand, 0, code == ARRIVE_DROP, lane, site)
            store_i64(result, token)
    if released:
        next_epoch(w)


@machine_function("void(int64,int32,int32,int32)")
def vg_cp_mbarrier(w, mask, site, noinc):
    """cp.async.mbarrier.arrive: an arrival once the thread's copies so far are over."""
    b, g = load_i64(w + L.STATE), grid_of(w)
    if load_i64(w + L.TRACE) != 0:
        trace_lanes(w, mask, site, ARRIVE_COPIED if noinc else ARRIVE_COPIED_INC)
    for lane in range(32):
        if not mask >> lane & 1:
            continue
        address = shared_offset(load_i64(w + L.SCRATCH_ADDRESS + 8 * lane))
        p = resolve(w, lane, address, 8, L.SPACE_SHARED, site, 8)
        if p == 0:
            continue
        if number_of(b, address) < 0:
            report(g, SYNCCHECK, SYNC_MBARRIER, site, -1, load_i64(b + B_INDEX), thread_of(w, lane), -1, -1, address, 0)
            continue
        if not noinc:
            store_i64(p, load_i64(p) + 1)
        if add_copy(w, lane, 0, 0, 0, 0, site, ARRIVE, address):
            store_i64(b + B_PENDING_COPIES, load_i64(b + B_PENDING_COPIES) + 1)


# ---------------------------------------------------------------- bulk copies
@machine_function("void(int64,int32,int32,int32)")
def vg_bulk(w, mask, site, to_shared):
    """cp.async.bulk between global and shared memory: sizes and addresses are multiples of 16 bytes."""
    b = load_i64(w + L.STATE)
    a = load_i64(w + L.ASYNC)
    for lane in range(32):
        if not mask >> lane & 1:
            continue
        src = load_i64(w + L.SCRATCH_ADDRESS + 8 * lane)
        dst = load_i64(w + L.SCRATCH_EXTRA + 8 * lane)
        size = load_i64(w + L.SCRATCH_VALUE + 8 * lane)
        if size & 15:
            fault(w, L.FAULT_MISALIGNED, lane, site, size)
            continue
        if size == 0:
            continue
        if to_shared:
            dst = shared_offset(dst)
            p = resolve(w, lane, src, size, L.SPACE_GLOBAL, site, 16)
            q = resolve(w, lane, dst, size, L.SPACE_SHARED, site, 16)
            mbar = shared_offset(load_i64(w + L.SCRATCH_VALUE + 256 + 8 * lane))
            if p != 0:
                count_bulk(w, site, src, size, 1, mbar)
            if p != 0 and q != 0 and add_copy(w, lane, 0, dst, size, p, site, BULK_LOAD, mbar):
                store_i64(b + B_PENDING_COPIES, load_i64(b + B_PENDING_COPIES) + 1)
                if load_i32(w + L.FLAGS) & L.OBSERVE_RACE:
                    check_free(w, dst, size, lane, site)
                    mark(w, dst, size, IN_FLIGHT, thread_of(w, lane), site)
        else:
            src = shared_offset(src)
            p = resolve(w, lane, src, size, L.SPACE_SHARED, site, 16)
            q = resolve(w, lane, dst, size, L.SPACE_GLOBAL, site, 16)
            if q != 0:
                count_bulk(w, site, dst, size, 0, 0)
            if p != 0 and q != 0:
                add_copy(w, lane, load_i64(a + A_BULK + 8 * lane), q, size, p, site, BULK_STORE, 0)


@machine_function("void(int64,int32)")
def vg_bulk_commit(w, mask):
    a = load_i64(w + L.ASYNC)
    for lane in range(32):
        if mask >> lane & 1:
            store_i64(a + A_BULK + 8 * lane, load_i64(a + A_BULK + 8 * lane) + 1)


@inner
def run_bulk_stores(w, mask, newest):
    a = load_i64(w + L.ASYNC)
    for k in range(load_i64(a + A_COUNT)):
        row = a + A_ROWS + k * COPY_BYTES
        lane = load_i64(row + K_LANE)
        if load_i64(row + K_KIND) == BULK_STORE and mask >> lane & 1:
            if load_i64(row + K_GROUP) < load_i64(a + A_BULK + 8 * lane) - newest:
                for j in range(load_i64(row + K_SIZE)):
                    store_u8(load_i64(row + K_DST) + j, load_u8(load_i64(row + K_SRC) + j))
                store_i64(row + K_KIND, -1)
    remove_done(w)


@machine_function("void(int64,int32,int32)")
def vg_bulk_wait(w, mask, newest):
    run_bulk_stores(w, mask, newest)
