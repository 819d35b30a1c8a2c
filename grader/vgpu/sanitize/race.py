"""racecheck and initcheck for a warp's accesses.

Each word of memory has two shadow entries, its last write and its last read, with who made it and in which epoch of his
warp. An epoch ends at a barrier or a syncwarp. Two accesses conflict when they touch the same word, at least one
writes, they are not both atomic, and nothing orders them: neither the same thread, nor epochs that a barrier has joined
(vector clocks over the warps of a block, as in FastTrack, Flanagan and Freund, PLDI 2009), nor, between blocks, a fence
in the first followed by an atomic in the second.

Entry of shared memory: atomic << 63 | many << 62 | epoch << 32 | mixed << 31 | site << 10 | thread.
Entry of global memory: jit/state.py, EPOCH_SHIFT; epochs count from the launch, and shadows are cleared for each.

An entry names one thread, but several may have read a word, or updated it atomically, with nothing to order them.
`many`: threads of other warps have too (global memory: of other blocks); `mixed`: other threads of the warp (the block).
jit/watch.py has the common case of all this; what is here is exact, lane by lane.
"""

import numpy as np

from ..jit import layout as L
from ..jit.raw import inner, load_i64, load_u8, load_u32, store_i64, store_u8
from ..jit.state import (
    ALLOC_DIRTY,
    ALLOC_INDEX,
    ALLOC_INIT,
    ALLOC_RACE,
    ANOTHER_LANE,
    ANOTHER_WARPS,
    B_ACQUIRE,
    B_BARRIER,
    B_BASE,
    B_CLOCK,
    B_INDEX,
    B_NAMED,
    B_PAIR,
    B_PARTIAL,
    B_RELEASE,
    B_SHADOW_R0,
    B_SHADOW_W,
    B_SYNCED,
    BLOCK_MASK,
    BLOCK_SHIFT,
    EPOCH_SHIFT,
    G_ACQUIRED,
    G_GLOBAL_SHIFT,
    G_GRID_BARRIER,
    G_LAUNCH,
    G_SHARED_SHIFT,
    GLOBAL_KIND,
    INITCHECK,
    MAX_BLOCKS,
    MAX_EPOCHS,
    RACE_RAW,
    RACE_UNWAITED,
    RACE_WAR,
    RACE_WAW,
    RACECHECK,
    SITE_MASK,
    report,
    thread_of,
)  # fmt: skip

ATOMIC_BIT = np.int64(-0x8000000000000000)
MANY_BIT = np.int64(0x4000000000000000)
IN_FLIGHT = 0x3FFFFFFF  # epoch of a word that an asynchronous copy will write (machine/copies.py)
MIXED_BIT, GLOBAL_MIXED_BIT = np.int64(1 << 31), np.int64(1 << 61)
SHARED_SITES = 0x1FFFFF


@inner
def seen(b, warp, other):
    """Newest epoch of warp `other` that `warp` is ordered after."""
    epoch = load_i64(b + B_BARRIER)
    if load_i64(b + B_NAMED) & 1:
        epoch = max(epoch, load_i64(b + B_PAIR + 8 * (32 * warp + other)))
    return epoch


@inner
def ordered(b, thread, epoch, other_thread):
    """True when an access of `other_thread` in `epoch` of its warp is over before what `thread` does now."""
    if thread == other_thread or epoch <= load_i64(b + B_BARRIER):
        return True  # the entry of a word that many read has one reader's name and the last one's epoch
    warp, other = thread >> 5, other_thread >> 5
    if epoch <= load_i64(b + B_RELEASE + 8 * other) and epoch <= load_i64(b + B_ACQUIRE + 8 * warp):
        return True  # a fence over there, and an atomic here
    if warp != other:
        return epoch <= seen(b, warp, other)
    if epoch <= load_i64(b + B_SYNCED + 8 * warp):
        return True
    if load_i64(b + B_NAMED) & 2:
        pairs = load_i64(b + B_PARTIAL) + 8 * 32 * 32 * warp
        return epoch <= load_i64(pairs + 8 * (32 * (thread & 31) + (other_thread & 31)))
    return False


@inner
def crowd_is_over(b, other_thread, epoch, many, mixed):
    """True when the unnamed threads of an entry are done: those of other warps (many), or of the same one (mixed).

    Where warps meet at named barriers, or lanes in parts of a warp, the named thread has to stand for them.
    """
    named = load_i64(b + B_NAMED)
    if epoch <= load_i64(b + B_BARRIER):
        return True
    if many and not named & 1:
        return False
    return not mixed or named != 0 or epoch <= load_i64(b + B_SYNCED + 8 * (other_thread >> 5))


@inner
def party(thread, other, many):
    """The other party of a conflict; when the entry names the thread itself, somebody of another warp or its own."""
    if thread != other:
        return np.int64(other)
    return np.int64(ANOTHER_WARPS) if many else np.int64(ANOTHER_LANE)


@inner
def same_bytes(p, q, nbytes):
    if nbytes == 4:
        return load_u32(p) == load_u32(q)
    if nbytes == 8:
        return load_i64(p) == load_i64(q)
    for k in range(nbytes):
        if load_u8(p + k) != load_u8(q + k):
            return False
    return True


@inner
def changes(w, lane, target, nbytes, count):
    """False for a store of `count` elements that leaves memory as it is: it races with nobody who could tell."""
    for k in range(count):
        if not same_bytes(w + L.SCRATCH_VALUE + 32 * nbytes * k + nbytes * lane, target + nbytes * k, nbytes):
            return True
    return False


@inner
def lanes_agree(w, mask, lane, other, nbytes, count):
    """The two lanes store the same values at the same place in the instruction that they are at."""
    if not mask >> other & 1 or load_i64(w + L.SCRATCH_ADDRESS + 8 * other) != load_i64(
        w + L.SCRATCH_ADDRESS + 8 * lane
    ):
        return False
    for k in range(count):
        row = w + L.SCRATCH_VALUE + 32 * nbytes * k
        if not same_bytes(row + nbytes * other, row + nbytes * lane, nbytes):
            return False
    return True


@inner
def shared_access(g, b, w, mask, lane, offset, nbytes, count, kind, strong, site, races, inits):
    """One lane's access to shared memory."""
    shift = load_i64(g + G_SHARED_SHIFT)
    writes, reads = load_i64(b + B_SHADOW_W), load_i64(b + B_SHADOW_R0)
    base, block, thread = load_i64(b + B_BASE), load_i64(b + B_INDEX), thread_of(w, lane)
    mine = load_i64(b + B_CLOCK + 8 * (thread >> 5))
    atomic = kind == L.ATOMIC or strong
    me = (mine << 32) | (site << 10) | thread
    if atomic:
        me |= ATOMIC_BIT
    for word in range(offset >> shift, (offset + nbytes - 1 >> shift) + 1):
        last = load_i64(writes + 8 * word)
        epoch, other = (last >> 32) & 0x3FFFFFFF, last & 1023
        last_site = (last >> 10) & SHARED_SITES
        written = last != 0 and epoch >= base
        if epoch == IN_FLIGHT:
            if races:
                report(g, RACECHECK, RACE_UNWAITED, site, last_site, block, thread, block, other, offset, kind)
            if kind != L.LOAD:
                store_i64(writes + 8 * word, me)
            continue
        together = atomic and last & ATOMIC_BIT != 0
        apart = written and not ordered(b, thread, epoch, other)
        clash = apart
        if written and not together and not clash:
            clash = not crowd_is_over(b, other, epoch, last & MANY_BIT != 0, last & MIXED_BIT != 0)
        clash = clash and not together and races
        if kind != L.STORE and not written and inits:
            report(g, INITCHECK, 0, site, -1, block, thread, -1, -1, offset, 0)
        before = load_i64(reads + 8 * word)
        re, rt = (before >> 32) & 0x3FFFFFFF, before & 1023
        live = before != 0 and re >= base
        if kind == L.LOAD:
            if clash:
                report(
                    g,
                    RACECHECK,
                    RACE_RAW,
                    site,
                    last_site,
                    block,
                    thread,
                    block,
                    party(thread, other, last & MANY_BIT != 0),
                    offset,
                    0,
                )
            entry = me
            if live and rt >> 5 != thread >> 5 and not ordered(b, thread, re, rt):
                if (
                    load_i64(b + B_NAMED) == 0
                ):  # whoever updates the word has read it last: the other reader is worth a name
                    entry = me >> 32 << 32 | before & 0xFFFFFFFF
                entry |= MANY_BIT
            elif live and before & MANY_BIT and load_i64(b + B_BARRIER) < re:
                entry |= MANY_BIT
            store_i64(reads + 8 * word, entry)
            continue
        if races and (kind == L.ATOMIC or changes(w, lane, load_i64(w + L.SHARED) + offset, nbytes // count, count)):
            if clash and other >> 5 == thread >> 5 and kind == L.STORE:
                clash = not lanes_agree(w, mask, lane, other & 31, nbytes // count, count)
            if clash:
                report(
                    g,
                    RACECHECK,
                    RACE_WAW,
                    site,
                    last_site,
                    block,
                    thread,
                    block,
                    party(thread, other, last & MANY_BIT != 0),
                    offset,
                    0,
                )
            if live and not (atomic and before & ATOMIC_BIT):
                loose = not ordered(b, thread, re, rt) or not crowd_is_over(b, rt, re, before & MANY_BIT != 0, False)
                if loose:
                    read_site = (before >> 10) & SHARED_SITES
                    report(
                        g,
                        RACECHECK,
                        RACE_WAR,
                        site,
                        read_site,
                        block,
                        thread,
                        block,
                        party(thread, rt, True),
                        offset,
                        0,
                    )
        entry = me
        if together and written and epoch > load_i64(b + B_BARRIER):
            if apart:
                entry |= MANY_BIT if other >> 5 != thread >> 5 else MIXED_BIT
            entry |= last & (MANY_BIT | MIXED_BIT)
        store_i64(writes + 8 * word, entry)


@inner
def between_blocks(g, block, other, epoch):
    """True when a fence of `other` after `epoch`, and an atomic of `block`, or a barrier of the grid, order the two.

    Only the last fence's time is kept, so that it is not seen whether the fence came before the atomic.
    """
    if epoch <= load_i64(g + G_GRID_BARRIER):
        return True
    table = load_i64(g + G_ACQUIRED)
    released, acquired = load_i64(table + 16 * other + 8), load_i64(table + 16 * block)
    return epoch <= released and epoch <= acquired


@inner
def epoch_of(g, entry):
    return ((entry >> EPOCH_SHIFT) & (MAX_EPOCHS - 1)) + load_i64(g + G_LAUNCH)


@inner
def global_ordered(g, b, block, thread, entry):
    other_block = (entry >> BLOCK_SHIFT) & BLOCK_MASK
    if other_block == block:
        return ordered(b, thread, epoch_of(g, entry), entry & 1023)
    return between_blocks(g, block, other_block, epoch_of(g, entry))


@inner
def others_are_over(g, b, block, entry, read):
    """True when the threads that an entry does not name are done. Those that only read are of other warps."""
    epoch = epoch_of(g, entry)
    if (entry >> BLOCK_SHIFT) & BLOCK_MASK != block:
        return True  # ordered as the named thread is
    if entry & MANY_BIT and not between_blocks(g, block, block, epoch):
        return False
    return not entry & GLOBAL_MIXED_BIT or crowd_is_over(b, entry & 1023, epoch, read, True)


@inner
def report_global(g, kind, site, block, thread, entry, address, row):
    other_block = (entry >> BLOCK_SHIFT) & BLOCK_MASK
    other = np.int64(entry & 1023)
    if other_block == block:
        other = party(thread, other, entry & MANY_BIT == 0 and entry & GLOBAL_MIXED_BIT == 0)
    if other < 0 and entry & MANY_BIT:
        other_block = np.int64(-1)
    report(
        g, RACECHECK, kind + GLOBAL_KIND, site, (entry >> 10) & SITE_MASK, block, thread, other_block, other, address,
        load_i64(row + 8 * ALLOC_INDEX),
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
def global_access(g, b, w, mask, lane, address, nbytes, count, kind, strong, site, row, races, inits):
    """One lane's access to global memory, inside the allocation of `row`."""
    low = load_i64(row)
    block, thread = load_i64(b + B_INDEX), thread_of(w, lane)
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
        together = atomic and last & ATOMIC_BIT != 0
        apart = last != 0 and not global_ordered(g, b, block, thread, last)
        clash = apart and not together
        if kind == L.LOAD:
            if clash or (last != 0 and not together and not others_are_over(g, b, block, last, False)):
                report_global(g, RACE_RAW, site, block, thread, last, address, row)
            mark = entry
            if before != 0 and not global_ordered(g, b, block, thread, before):
                if (before >> BLOCK_SHIFT) & BLOCK_MASK != block:
                    mark |= MANY_BIT
                elif (before & 1023) >> 5 != thread >> 5:
                    mark |= GLOBAL_MIXED_BIT
            if before != 0 and not others_are_over(g, b, block, before, True):
                mark |= before & (MANY_BIT | GLOBAL_MIXED_BIT)
            store_i64(p + 8, mark)
            continue
        change = kind == L.ATOMIC or changes(w, lane, address, nbytes // count, count)
        if (
            change
            and clash
            and (last >> BLOCK_SHIFT) & BLOCK_MASK == block
            and (last & 1023) >> 5 == thread >> 5
            and kind == L.STORE
        ):
            clash = not lanes_agree(w, mask, lane, last & 31, nbytes // count, count)
        if change and clash:
            report_global(g, RACE_WAW, site, block, thread, last, address, row)
        if change and before != 0 and not (atomic and before & ATOMIC_BIT):
            if not global_ordered(g, b, block, thread, before) or not others_are_over(g, b, block, before, True):
                report_global(g, RACE_WAR, site, block, thread, before, address, row)
        mark = entry
        if together and apart:
            mark |= GLOBAL_MIXED_BIT if (last >> BLOCK_SHIFT) & BLOCK_MASK == block else MANY_BIT
        if together and not others_are_over(g, b, block, last, False):
            mark |= last & (MANY_BIT | GLOBAL_MIXED_BIT)
        store_i64(p, mark)


@inner
def survey(shadow, words, found):
    """For words read, written and updated atomically in a launch: how many, the first, the last. Nine words at `found`."""
    n_read, n_written, n_atomic = 0, 0, 0
    last_read, last_written, last_atomic = 0, 0, 0
    for word in range(words - 1, -1, -1):
        last, before = load_i64(shadow + 16 * word), load_i64(shadow + 16 * word + 8)
        if before > 0:
            last_read = word if n_read == 0 else last_read
            n_read += 1
            store_i64(found + 8, word)
        if last > 0:
            last_written = word if n_written == 0 else last_written
            n_written += 1
            store_i64(found + 32, word)
        if last < 0 or before < 0:  # ATOMIC_BIT
            last_atomic = word if n_atomic == 0 else last_atomic
            n_atomic += 1
            store_i64(found + 56, word)
    store_i64(found, n_read)
    store_i64(found + 16, last_read)
    store_i64(found + 24, n_written)
    store_i64(found + 40, last_written)
    store_i64(found + 48, n_atomic)
    store_i64(found + 64, last_atomic)


def touched(shadow: np.ndarray, words: int) -> list:
    """What a launch did, as global memory's shadow has it: which words were read, written, updated atomically.

    Each a range (first, end), where it is one, else a bool for every word.
    """
    found = np.zeros(9, np.int64)
    survey(shadow.ctypes.data, words, found.ctypes.data)
    entries = shadow[: 2 * words].reshape(-1, 2)
    out = []
    for kind, (n, first, last) in enumerate(found.reshape(3, 3).tolist()):
        if n == last - first + 1 or n == 0:
            out.append((first, first + n))
        elif kind == 2:
            out.append((entries < 0).any(axis=1))
        else:
            out.append(entries[:, 1 - kind] > 0)
    return out
