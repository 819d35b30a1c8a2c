"""racecheck and initcheck for a warp's accesses.

Each word of memory has two shadow entries, its last write and its last read, with who made it and in which epoch of his
warp. An epoch ends at a barrier or a syncwarp. Two accesses conflict when they touch the same word, at least one writes,
they are not both atomic, and nothing orders them: neither the same thread, nor epochs that a barrier has joined
(vector clocks over the warps of a block, as in FastTrack, Flanagan and Freund, PLDI 2009), nor, between blocks, a fence
in the first followed by an atomic in the second.

Entry of shared memory: atomic << 63 | many << 62 | epoch << 32 | site << 10 | thread.
Entry of global memory: machine/state.py, EPOCH_SHIFT; epochs count from the launch, and shadows are cleared for each.
jit/watch.py has the common case of all this; what is here is exact, lane by lane.
"""

import numpy as np

from ..jit import layout as L
from ..machine.raw import inner, load_i32, load_i64, load_u8, load_u16, load_u32, store_i64, store_u8
from ..machine.state import (
    ALLOC_DIRTY, ALLOC_INDEX, ALLOC_INIT, ALLOC_RACE, B_BARRIER, B_BASE, B_CLOCK, B_INDEX, B_NAMED, B_PAIR, B_SHADOW_R0, B_SHADOW_W,
    BLOCK_MASK, BLOCK_SHIFT, EPOCH_SHIFT, G_ACQUIRED, G_GLOBAL_SHIFT, G_GRID_BARRIER, G_LAUNCH, G_SHARED_SHIFT, MAX_BLOCKS,
    MAX_EPOCHS, SITE_MASK, INITCHECK, RACE_RAW, RACE_UNWAITED, RACE_WAR, RACE_WAW, RACECHECK, report,
)  # fmt: skip

ATOMIC_BIT = np.int64(-0x8000000000000000)
MANY_BIT = np.int64(0x4000000000000000)
IN_FLIGHT = 0x3FFFFFFF  # epoch of a word that an asynchronous copy will write (machine/copies.py)
GLOBAL_KIND = 8  # added to a racecheck kind found in global memory


@inner
def seen(b, warp, other):
    """Newest epoch of warp `other` that `warp` is ordered after."""
    epoch = load_i64(b + B_BARRIER)
    if load_i64(b + B_NAMED):
        epoch = max(epoch, load_i64(b + B_PAIR + 8 * (32 * warp + other)))
    return epoch


@inner
def ordered(b, thread, mine, epoch, other_thread):
    """True when an access of `other_thread` in `epoch` of its warp is over before what `thread` does now in `mine`."""
    if thread == other_thread:
        return True
    warp, other = thread >> 5, other_thread >> 5
    if warp == other:
        return epoch < mine
    return epoch <= seen(b, warp, other)


@inner
def same_value(slot, p, nbytes):
    """A store that leaves memory as it is races with nobody who could tell."""
    if nbytes == 4:
        return load_u32(slot) == load_u32(p)
    if nbytes == 8:
        return load_i64(slot) == load_i64(p)
    if nbytes == 2:
        return load_u16(slot) == load_u16(p)
    if nbytes == 1:
        return load_u8(slot) == load_u8(p)
    return False


@inner
def shared_access(g, b, w, thread, offset, nbytes, kind, strong, site, slot, races, inits):
    """One lane's access to shared memory."""
    shift = load_i64(g + G_SHARED_SHIFT)
    writes, reads = load_i64(b + B_SHADOW_W), load_i64(b + B_SHADOW_R0)
    base, block = load_i64(b + B_BASE), load_i64(b + B_INDEX)
    mine = load_i64(b + B_CLOCK + 8 * (thread >> 5))
    me = (mine << 32) | (site << 10) | thread
    for word in range(offset >> shift, (offset + nbytes - 1 >> shift) + 1):
        last = load_i64(writes + 8 * word)
        epoch, other = (last >> 32) & 0x3FFFFFFF, last & 1023
        written = last != 0 and epoch >= base
        if epoch == IN_FLIGHT:
            if races:
                report(g, RACECHECK, RACE_UNWAITED, site, (last >> 10) & 0x3FFFFF, block, thread, block, other, offset, 0)
            if kind != L.LOAD:
                store_i64(writes + 8 * word, me)
            continue
        if kind == L.LOAD:
            if not written:
                if inits:
                    report(g, INITCHECK, 0, site, -1, block, thread, -1, -1, offset, 0)
            elif races and not (strong and last & ATOMIC_BIT) and not ordered(b, thread, mine, epoch, other):
                report(g, RACECHECK, RACE_RAW, site, (last >> 10) & 0x3FFFFF, block, thread, block, other, offset, 0)
            before = load_i64(reads + 8 * word)
            entry = me | (ATOMIC_BIT if strong else np.int64(0))
            if before != 0:
                re, rt = (before >> 32) & 0x3FFFFFFF, before & 1023
                if re >= base and rt >> 5 != thread >> 5 and not ordered(b, thread, mine, re, rt):
                    entry |= MANY_BIT
                elif re >= base and before & MANY_BIT and load_i64(b + B_BARRIER) < re:
                    entry |= MANY_BIT
            store_i64(reads + 8 * word, entry)
            continue
        if races:
            atomic = kind == L.ATOMIC or strong
            if written and not (atomic and last & ATOMIC_BIT) and not ordered(b, thread, mine, epoch, other):
                if kind == L.ATOMIC or not same_value(slot, load_i64(w + L.SHARED) + offset, nbytes):
                    report(g, RACECHECK, RACE_WAW, site, (last >> 10) & 0x3FFFFF, block, thread, block, other, offset, 0)
            before = load_i64(reads + 8 * word)
            if before != 0:
                re, rt = (before >> 32) & 0x3FFFFFFF, before & 1023
                if re >= base and not (atomic and before & ATOMIC_BIT):
                    loose = not ordered(b, thread, mine, re, rt)
                    if before & MANY_BIT and load_i64(b + B_BARRIER) < re:
                        loose = True
                    if loose and (kind == L.ATOMIC or not same_value(slot, load_i64(w + L.SHARED) + offset, nbytes)):
                        report(g, RACECHECK, RACE_WAR, site, (before >> 10) & 0x3FFFFF, block, thread, block, rt, offset, 0)
        if inits and kind == L.ATOMIC and not written:
            report(g, INITCHECK, 0, site, -1, block, thread, -1, -1, offset, 0)
        store_i64(writes + 8 * word, me | (ATOMIC_BIT if kind == L.ATOMIC or strong else np.int64(0)))


@inner
def between_blocks(g, block, other, epoch):
    """True when a fence of block `other` after `epoch`, and then an atomic of `block`, or a barrier of the grid, order the two."""
    if epoch <= load_i64(g + G_GRID_BARRIER):
        return True
    table = load_i64(g + G_ACQUIRED)
    released, acquired = load_i64(table + 16 * other + 8), load_i64(table + 16 * block)
    return epoch <= released and released <= acquired


@inner
def global_ordered(g, b, block, thread, mine, entry):
    other_block, other = (entry >> BLOCK_SHIFT) & BLOCK_MASK, entry & 1023
    epoch = ((entry >> EPOCH_SHIFT) & (MAX_EPOCHS - 1)) + load_i64(g + G_LAUNCH)
    if other_block == block:
        return ordered(b, thread, mine, epoch, other)
    return between_blocks(g, block, other_block, epoch)


@inner
def report_global(g, kind, site, block, thread, entry, address, row):
    report(
        g, RACECHECK, kind + GLOBAL_KIND, site, (entry >> 10) & SITE_MASK, block, thread, (entry >> BLOCK_SHIFT) & BLOCK_MASK,
        entry & 1023, address, load_i64(row + 8 * ALLOC_INDEX),
    )  # fmt: skip


@inner
def global_init(g, block, thread, address, nbytes, kind, site, row):
    """initcheck: a byte of shadow for each byte, 1 once written."""
    init, low = load_i64(row + 8 * ALLOC_INIT), load_i64(row)
    if kind == L.LOAD or kind == L.ATOMIC:
        for k in range(nbytes):
            if load_u8(init + address - low + k) == 0:
                report(g, INITCHECK, 1, site, -1, block, thread, -1, -1, address, load_i64(row + 8 * ALLOC_INDEX))
                break
    if kind != L.LOAD:
        for k in range(nbytes):
            store_u8(init + address - low + k, 1)


@inner
def global_access(g, b, thread, address, nbytes, kind, strong, site, row, slot, races, inits):
    """One lane's access to global memory, inside the allocation of `row`."""
    low = load_i64(row)
    block = load_i64(b + B_INDEX)
    if inits and load_i64(row + 8 * ALLOC_INIT) != 0:
        global_init(g, block, thread, address, nbytes, kind, site, row)
    shadow = load_i64(row + 8 * ALLOC_RACE)
    mine = load_i64(b + B_CLOCK + 8 * (thread >> 5))
    relative = mine - load_i64(g + G_LAUNCH)
    if shadow == 0 or not races or block >= MAX_BLOCKS or relative >= MAX_EPOCHS:
        return
    shift = load_i64(g + G_GLOBAL_SHIFT)
    atomic = kind == L.ATOMIC or strong
    entry = (relative << EPOCH_SHIFT) | (block << BLOCK_SHIFT) | ((site & SITE_MASK) << 10) | thread
    if atomic:
        entry |= ATOMIC_BIT
    if kind != L.LOAD:
        store_i64(row + 8 * ALLOC_DIRTY, 1)
    for word in range((address - low) >> shift, ((address - low + nbytes - 1) >> shift) + 1):
        p = shadow + 16 * word
        last, before = load_i64(p), load_i64(p + 8)
        clash = last != 0 and not (atomic and last & ATOMIC_BIT) and not global_ordered(g, b, block, thread, mine, last)
        if kind == L.LOAD:
            if clash:
                report_global(g, RACE_RAW, site, block, thread, last, address, row)
            many = before != 0 and (before & MANY_BIT or (before >> BLOCK_SHIFT) & BLOCK_MASK != block)
            store_i64(p + 8, entry | (MANY_BIT if many else np.int64(0)))
            continue
        changes = kind == L.ATOMIC or not same_value(slot, address, nbytes)
        if changes and clash:
            report_global(g, RACE_WAW, site, block, thread, last, address, row)
        if changes and before != 0 and not (atomic and before & ATOMIC_BIT):
            loose = not global_ordered(g, b, block, thread, mine, before)
            if before & MANY_BIT and (before >> BLOCK_SHIFT) & BLOCK_MASK == block and not loose:
                epoch = ((before >> EPOCH_SHIFT) & (MAX_EPOCHS - 1)) + load_i64(g + G_LAUNCH)
                loose = not between_blocks(g, block, block, epoch)
            if loose:
                report_global(g, RACE_WAR, site, block, thread, before, address, row)
        store_i64(p, entry)


__all__ = ["load_i32"]
