"""Exact counters: what each memory instruction asked for, and how often each block of code ran.

Global memory moves 32-byte sectors, four to a 128-byte line; a request is one warp's instruction (CUDA C++ Best
Practices Guide, "Coalesced Access to Global Memory"). Shared memory has 32 banks of 4 bytes; a warp's access takes as
many wavefronts as the most loaded bank has different words; 8-byte accesses go in two halves and 16-byte ones in four
quarters of the warp (CUDA C++ Programming Guide, "Shared Memory"). The data banks of the L1 are the same ones.

A few blocks leave a trace as well, from which the clock works: words (tag << 60 | ...), for each warp in its own buffer.
T_ENTER: block of code << 32 | lanes. T_SHARED, T_GLOBAL, T_LOCAL: site << 32 | lines << 8 | passes, a global access followed
by its lines, each (address >> 7) << 4 | sectors touched. T_MBARRIER: site << 32 | 1 << 8 | code of machine/copies.py, and a
word: address | arrivals (of a test: parity; of init: count) << 20 | bytes << 32. T_BULK: site << 32 | 2 << 8 | to shared
memory, and two words: mbarrier's address | bytes << 32, address in global memory. The buffer's last word holds the
address where the trace ends.
"""

import numpy as np

from ..jit import layout as L
from ..jit.raw import inner, lanes_apart, load_i32, load_i64, machine_function, popcount, store_i64
from ..jit.state import G_SCRATCH, grid_of

# Per site, int64: the order of SITE_COUNTERS in profile names
C_REQUESTS, C_LANES, C_SECTORS, C_WAVEFRONTS, C_IDEAL, C_BYTES, C_LINES, C_PASSES = 0, 8, 16, 24, 32, 40, 48, 56
COUNTER_BYTES = 64
# After a site's counters, the pattern of its last access: lanes (bit 32: there is one) and space, each lane's offset from the
# first one's address, and what such an access costs, by that address's place in its 128 bytes: 0 while it is not known.
P_LANES, P_SPACE, P_OFFSETS, P_COSTS = 64, 72, 80, 80 + 32 * 8
SITE_BYTES = P_COSTS + 32 * 8
COUNTS = 3  # words of a block of code: times run, lanes, times its branch split a warp
SECTOR, LINE = 32, 128

T_ENTER, T_SHARED, T_GLOBAL, T_LOCAL, T_MBARRIER, T_BULK = range(1, 7)
MAX_LINES = 64  # that one access can touch
SCRATCH_WORDS = MAX_LINES + 32 + 32 * 32  # lines; per bank: how many words, and which


@inner
def bump(p, n):
    store_i64(p, load_i64(p) + n)


@inner
def find_lines(w, mask, nbytes, lines):
    """Write the lines that the lanes touch, with their sectors. -> how many."""
    n, last, top = 0, -1, -1
    for lane in range(32):
        if not mask >> lane & 1:
            continue
        a = load_i64(w + L.SCRATCH_ADDRESS + 8 * lane)
        for sector in range(a >> 5, (a + nbytes - 1 >> 5) + 1):
            line, bit = sector >> 2, 1 << (sector & 3)
            k = last
            if k < 0 or load_i64(lines + 8 * k) >> 4 != line:
                k = n - 1 if line <= top else -1  # addresses mostly rise: what is above all others is new
                while k >= 0 and load_i64(lines + 8 * k) >> 4 != line:
                    k -= 1
            if k < 0:
                if n == MAX_LINES:
                    return n
                k = n
                store_i64(lines + 8 * k, line << 4)
                n += 1
                top = max(top, line)
            store_i64(lines + 8 * k, load_i64(lines + 8 * k) | bit)
            last = k
    return n


@inner
def find_row_lines(first, nbytes, lines):
    """The same for 32 lanes at consecutive addresses."""
    n, end = 0, first + 32 * nbytes - 1
    for line in range(first >> 7, (end >> 7) + 1):
        sectors = 15
        if line == first >> 7:
            sectors &= 15 << ((first >> 5) & 3)
        if line == end >> 7:
            sectors &= 15 >> (3 - ((end >> 5) & 3))
        store_i64(lines + 8 * n, (line << 4) | (sectors & 15))
        n += 1
    return n


@inner
def wavefronts(w, mask, nbytes, banks):
    """Passes that the data banks take: the most different words that one must give, in each part of the warp."""
    parts = max(1, nbytes // 4)
    lanes = 32 // parts
    total = 0
    for part in range(parts):
        worst, rising = 0, True  # each bank's words so far
        for bank in range(32):
            store_i64(banks + 8 * bank, 0)
        for lane in range(part * lanes, (part + 1) * lanes):
            if not mask >> lane & 1:
                continue
            a = load_i64(w + L.SCRATCH_ADDRESS + 8 * lane)
            for word in range(a >> 2, (a + nbytes - 1 >> 2) + 1):
                bank = word & 31
                n = load_i64(banks + 8 * bank)
                words = banks + 8 * (32 + 32 * bank)
                above = n == 0 or word > load_i64(words + 8 * (n - 1))
                k = n if rising and above else 0
                while k < n and load_i64(words + 8 * k) != word:
                    k += 1
                if k == n and n < 32:
                    store_i64(words + 8 * n, word)
                    store_i64(banks + 8 * bank, n + 1)
                    worst = max(worst, n + 1)
                    rising = rising and above
        total += worst
    return max(total, 1)


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
def trace(w, word, lines, n):
    """Append a word and n lines to the warp's trace; when it is full, it ends."""
    p = load_i64(w + L.TRACE)
    if p == 0:
        return
    end = load_i64(w + L.TRACE_END)
    if p + 8 * (n + 1) > end:
        store_i64(w + L.TRACE, 0)
        return
    store_i64(p, word)
    for k in range(n):
        store_i64(p + 8 + 8 * k, load_i64(lines + 8 * k))
    p += 8 * (n + 1)
    store_i64(end, p)
    store_i64(w + L.TRACE, p)


@inner
def trace_mbarrier(w, site, code, address, arrivals, nbytes):
    """Append an operation of lanes at one mbarrier."""
    scratch = load_i64(grid_of(w) + G_SCRATCH)
    store_i64(scratch, (address & 0xFFFFF) | (min(arrivals, 0xFFF) << 20) | (nbytes << 32))
    trace(w, (T_MBARRIER << 60) | (site << 32) | (1 << 8) | code, scratch, 1)


@inner
def count_bulk(w, site, address, nbytes, to_shared, mbarrier):
    """A bulk copy of one thread: whole sectors, past the L1."""
    if load_i32(w + L.FLAGS) & L.OBSERVE_COUNT:
        p = load_i64(w + L.SITES) + site * SITE_BYTES
        bump(p + C_REQUESTS, 1)
        bump(p + C_LANES, 1)
        bump(p + C_BYTES, nbytes)
        sectors = (address + nbytes - 1 >> 5) - (address >> 5) + 1
        bump(p + C_SECTORS, sectors)
        bump(p + C_IDEAL, (nbytes + SECTOR - 1) // SECTOR)
    if load_i64(w + L.TRACE) != 0:
        scratch = load_i64(grid_of(w) + G_SCRATCH)
        store_i64(scratch, (mbarrier & 0xFFFFF) | (nbytes << 32))
        store_i64(scratch + 8, address)
        trace(w, (T_BULK << 60) | (site << 32) | (2 << 8) | to_shared, scratch, 2)


@inner
def same_pattern(w, p, lanes, space, first):
    """Whether the lanes' addresses lie to each other as they did at this site's last access."""
    if load_i64(p + P_LANES) != lanes | 1 << 32 or load_i64(p + P_SPACE) != space:
        return False
    return lanes_apart(w + L.SCRATCH_ADDRESS, first, p + P_OFFSETS) & lanes == 0


@inner
def keep_pattern(w, p, lanes, space, first):
    store_i64(p + P_LANES, lanes | 1 << 32)
    store_i64(p + P_SPACE, space)
    for lane in range(32):
        store_i64(p + P_OFFSETS + 8 * lane, load_i64(w + L.SCRATCH_ADDRESS + 8 * lane) - first)
        store_i64(p + P_COSTS + 8 * lane, 0)


@inner
def count_access(w, mask, site, nbytes, kind, space):
    if mask == 0:
        return
    p = load_i64(w + L.SITES) + site * SITE_BYTES
    scratch = load_i64(grid_of(w) + G_SCRATCH)
    banks = scratch + 8 * MAX_LINES
    lanes = popcount(mask)
    bump(p + C_REQUESTS, 1)
    bump(p + C_LANES, lanes)
    bump(p + C_BYTES, lanes * nbytes)
    lane = 0
    while not mask >> lane & 1:
        lane += 1
    first = load_i64(w + L.SCRATCH_ADDRESS + 8 * lane)
    if space == L.SPACE_GENERIC:
        window = (first >> L.WINDOW_SHIFT) & 0xFF
        space = L.SPACE_SHARED if window == 1 else L.SPACE_LOCAL if window == 2 else L.SPACE_GLOBAL
    least = (lanes * nbytes + SECTOR - 1) // SECTOR
    if space == L.SPACE_LOCAL:  # lanes' words lie side by side
        bump(p + C_IDEAL, least)
        bump(p + C_SECTORS, least)
        bump(p + C_LINES, (least + 3) // 4)
        bump(p + C_PASSES, (least + 3) // 4)
        trace(w, (T_LOCAL << 60) | (site << 32) | (((least + 3) // 4) << 8) | ((least + 3) // 4), scratch, 0)
        return
    shared = space == L.SPACE_SHARED
    bits = np.int64(mask) & 0xFFFFFFFF
    known = np.int64(0)
    place = p + P_COSTS + 8 * ((first >> 2) & 31)
    if first & 3 == 0:
        if same_pattern(w, p, bits, np.int64(space), first):
            known = load_i64(place)
        else:
            keep_pattern(w, p, bits, np.int64(space), first)
    traced = load_i64(w + L.TRACE) != 0
    n, sectors, passes = known >> 32, (known >> 16) & 0xFFFF, known & 0xFFFF
    if known == 0 or (traced and not shared):
        row = is_row(w, mask, nbytes)
        passes = np.int64(max(1, nbytes // 4) if row and first & 3 == 0 else wavefronts(w, mask, nbytes, banks))
        if not shared:
            n = np.int64(find_row_lines(first, nbytes, scratch) if row else find_lines(w, mask, nbytes, scratch))
            sectors = np.int64(0)
            for k in range(n):
                word = load_i64(scratch + 8 * k)
                sectors += (word & 1) + (word >> 1 & 1) + (word >> 2 & 1) + (word >> 3 & 1)
        if first & 3 == 0:
            store_i64(place, (n << 32) | (sectors << 16) | passes)
    if shared:
        bump(p + C_WAVEFRONTS, passes)
        bump(p + C_IDEAL, max(1, (lanes * nbytes + 127) // 128))
        trace(w, (T_SHARED << 60) | (site << 32) | passes, scratch, 0)
        return
    bump(p + C_IDEAL, least)
    bump(p + C_SECTORS, sectors)
    bump(p + C_LINES, n)
    bump(p + C_PASSES, passes)
    if traced:
        trace(w, (T_GLOBAL << 60) | (site << 32) | (n << 8) | passes, scratch, n)


@machine_function("void(int64,int32)")
def vg_split(w, block):
    """The branch at a block's end has sent lanes both ways."""
    if load_i32(w + L.FLAGS) & L.OBSERVE_COUNT:
        bump(load_i64(w + L.COUNTS) + 8 * COUNTS * block + 16, 1)


@machine_function("void(int64,int32)")
def vg_enter(w, block):
    """A block of code starts: times run, lanes that run it."""
    p = load_i64(w + L.COUNTS) + 8 * COUNTS * block
    mask = load_i32(w + L.MASK)
    bump(p, 1)
    bump(p + 8, popcount(mask))
    if load_i64(w + L.TRACE) != 0:
        trace(w, (T_ENTER << 60) | (block << 32) | (mask & 0xFFFFFFFF), w, 0)
