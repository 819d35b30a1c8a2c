"""Exact counters: what each memory instruction asked for, and how often each block of code ran.

Global memory moves 32-byte sectors, four to a 128-byte line; a request is one warp's instruction (CUDA C++ Best
Practices Guide, "Coalesced Access to Global Memory"). Shared memory has 32 banks of 4 bytes; a warp's access takes as
many wavefronts as the most loaded bank has different words; 8-byte accesses go in two halves and 16-byte ones in four
quarters of the warp (CUDA C++ Programming Guide, "Shared Memory").
"""

from ..jit import layout as L
from .raw import inner, load_i32, load_i64, machine_function, popcount, store_i64
from .state import G_PROFILE, grid_of

# Per site, int64: the order of SITE_COUNTERS in profile names
C_REQUESTS, C_LANES, C_SECTORS, C_WAVEFRONTS, C_IDEAL, C_BYTES, C_LINES = 0, 8, 16, 24, 32, 40, 48
COUNTER_BYTES = 64
SECTOR, LINE = 32, 128


@inner
def bump(p, n):
    store_i64(p, load_i64(p) + n)


@inner
def distinct(w, mask, nbytes, shift):
    """Number of different (address >> shift) that the lanes touch, first and last byte."""
    n = 0
    previous = -1
    for lane in range(32):
        if not mask >> lane & 1:
            continue
        a = load_i64(w + L.SCRATCH_ADDRESS + 8 * lane)
        for unit in range(a >> shift, (a + nbytes - 1 >> shift) + 1):
            if unit == previous:
                continue
            previous = unit
            found = False
            for other in range(lane):
                if mask >> other & 1:
                    o = load_i64(w + L.SCRATCH_ADDRESS + 8 * other)
                    if o >> shift <= unit <= (o + nbytes - 1) >> shift:
                        found = True
                        break
            if not found:
                n += 1
    return n


@inner
def wavefronts(w, mask, nbytes):
    """Passes that a shared-memory access takes: the most different words that one bank must give in a part of the warp."""
    parts = max(1, nbytes // 4)
    lanes = 32 // parts
    total = 0
    for part in range(parts):
        worst = 0
        for bank in range(32):
            n = 0
            for lane in range(part * lanes, (part + 1) * lanes):
                if not mask >> lane & 1:
                    continue
                a = load_i64(w + L.SCRATCH_ADDRESS + 8 * lane)
                for word in range(a >> 2, (a + nbytes - 1 >> 2) + 1):
                    if word & 31 != bank:
                        continue
                    again = False
                    for other in range(part * lanes, lane):
                        if mask >> other & 1:
                            o = load_i64(w + L.SCRATCH_ADDRESS + 8 * other)
                            if o >> 2 <= word <= (o + nbytes - 1) >> 2:
                                again = True
                                break
                    if not again:
                        n += 1
            worst = max(worst, n)
        total += worst
    return total


@inner
def is_row(w, mask, nbytes):
    """All lanes active and at consecutive addresses."""
    if mask != -1:
        return False
    first = load_i64(w + L.SCRATCH_ADDRESS)
    for lane in range(1, 32):
        if load_i64(w + L.SCRATCH_ADDRESS + 8 * lane) != first + nbytes * lane:
            return False
    return True


@inner
def count_access(w, mask, site, nbytes, kind, space):
    p = load_i64(w + L.SITES) + site * COUNTER_BYTES
    lanes = popcount(mask)
    bump(p + C_REQUESTS, 1)
    bump(p + C_LANES, lanes)
    bump(p + C_BYTES, lanes * nbytes)
    address = load_i64(w + L.SCRATCH_ADDRESS)
    row = is_row(w, mask, nbytes)
    if space == L.SPACE_SHARED or (space == L.SPACE_GENERIC and (address >> L.WINDOW_SHIFT) & 0xFF == 1):
        bump(p + C_WAVEFRONTS, max(1, nbytes // 4) if row else wavefronts(w, mask, nbytes))
        bump(p + C_IDEAL, max(1, (lanes * nbytes + 127) // 128))
    elif space != L.SPACE_LOCAL:
        if row:
            last = address + 32 * nbytes - 1
            bump(p + C_SECTORS, (last >> 5) - (address >> 5) + 1)
            bump(p + C_LINES, (last >> 7) - (address >> 7) + 1)
        else:
            bump(p + C_SECTORS, distinct(w, mask, nbytes, 5))
            bump(p + C_LINES, distinct(w, mask, nbytes, 7))
        bump(p + C_IDEAL, (lanes * nbytes + SECTOR - 1) // SECTOR)
    else:
        bump(p + C_SECTORS, (lanes * nbytes + SECTOR - 1) // SECTOR)
        bump(p + C_IDEAL, (lanes * nbytes + SECTOR - 1) // SECTOR)


@machine_function("void(int64,int32)")
def vg_enter(w, block):
    """A block of code starts: times run, lanes that run it; a word of trace for the clock."""
    p = load_i64(w + L.COUNTS) + 16 * block
    bump(p, 1)
    bump(p + 8, popcount(load_i32(w + L.MASK)))


__all__ = ["G_PROFILE", "grid_of"]
