"""What happens at an access besides moving bytes: counting, and telling the sanitizers."""

from ..jit import layout as L
from ..jit.raw import inner, load_i32, load_i64, machine_function, store_i64
from ..jit.state import (
    ALLOC_WORDS,
    B_ACQUIRE,
    B_INDEX,
    B_RELEASE,
    ELEMENTS_MASK,
    ELEMENTS_SHIFT,
    G_ACQUIRED,
    G_ALLOCS,
    G_CLOCK,
    G_NALLOCS,
    G_SITES,
    LIVE_SHIFT,
    RELEASING,
    SITE_WORDS,
    STRONG,
    grid_of,
)  # fmt: skip
from ..sanitize.race import global_access, shared_access
from .count import count_access
from .dispatch import next_epoch


@inner
def find_allocation(g, address):
    """Row of the allocation that holds `address`, or 0."""
    rows, low, high = load_i64(g + G_ALLOCS), 0, load_i64(g + G_NALLOCS) - 1
    while low <= high:
        mid = (low + high) >> 1
        row = rows + mid * ALLOC_WORDS * 8
        if address < load_i64(row):
            high = mid - 1
        elif address >= load_i64(row + 8):
            low = mid + 1
        else:
            return row
    return 0


@inner
def acquire(w, g, b, all_blocks):
    """An atomic or strong access: the warp, and in global memory the block, sees what others released before."""
    now = load_i64(g + G_CLOCK) + 1
    store_i64(g + G_CLOCK, now)
    store_i64(b + B_ACQUIRE + 8 * load_i32(w + L.WARPID), now)
    table = load_i64(g + G_ACQUIRED)
    if table != 0 and all_blocks:
        store_i64(table + 16 * load_i64(b + B_INDEX), now)


@inner
def release(w, g, b, all_blocks):
    """What the warp, and the block, wrote so far is over for those that acquire from now on."""
    now = load_i64(g + G_CLOCK)
    store_i64(b + B_RELEASE + 8 * load_i32(w + L.WARPID), now)
    table = load_i64(g + G_ACQUIRED)
    if table != 0 and all_blocks:
        store_i64(table + 16 * load_i64(b + B_INDEX) + 8, now)
    next_epoch(w)


@inner
def sanitize(w, mask, site, nbytes, kind, space, flags):
    g, b = grid_of(w), load_i64(w + L.STATE)
    races, inits = flags & L.OBSERVE_RACE != 0, flags & L.OBSERVE_INIT != 0
    order = load_i64(load_i64(g + G_SITES) + site * SITE_WORDS * 8 + 8)
    strong, count, live = order & STRONG != 0, max(order >> ELEMENTS_SHIFT & ELEMENTS_MASK, 1), order >> LIVE_SHIFT
    part = count > 1 and live != (1 << count) - 1  # of a vector load, only some elements are used
    element = nbytes // count
    if order & RELEASING:
        release(w, g, b, 1)
    if load_i32(w + L.FAULT) != 0:
        return  # what follows a fault follows from it
    row = 0
    touched_global = False
    for lane in range(32):
        if not mask >> lane & 1:
            continue
        address = load_i64(w + L.SCRATCH_ADDRESS + 8 * lane)
        if address & (nbytes - 1):
            continue  # a fault
        where = space
        if where == L.SPACE_GENERIC:
            window = (address >> L.WINDOW_SHIFT) & 0xFF
            where = L.SPACE_SHARED if window == 1 else L.SPACE_LOCAL if window == 2 else L.SPACE_GLOBAL
            if window != 0:
                address &= 0xFFFFFFFF
        size, pieces = (element, count) if part else (nbytes, 1)
        for k in range(pieces):
            if part and not live >> k & 1:
                continue
            at, n = address + k * size, 1 if part else count
            if where == L.SPACE_SHARED:
                if at >= 0 and at + size <= load_i32(w + L.SHARED_BYTES):
                    shared_access(g, b, w, mask, lane, at, size, n, kind, strong, site, races, inits)
            elif where == L.SPACE_GLOBAL:
                touched_global = True
                if row == 0 or at < load_i64(row) or at >= load_i64(row + 8):
                    row = find_allocation(g, at)
                if row != 0 and at + size <= load_i64(row + 8):
                    global_access(g, b, w, mask, lane, at, size, n, kind, strong, site, row, races, inits)
    if strong or kind == L.ATOMIC:
        acquire(w, g, b, touched_global)


@inner
def observe(w, mask, site, nbytes, kind, space):
    flags = load_i32(w + L.FLAGS)
    if flags & L.OBSERVE_COUNT:
        count_access(w, mask, site, nbytes, kind, space)
    if flags & (L.OBSERVE_RACE | L.OBSERVE_INIT):
        sanitize(w, mask, site, nbytes, kind, space, flags)


@machine_function("void(int64,int32,int32,int32,int32,int32)")
def vg_count(w, mask, site, nbytes, kind, space):
    """Called by the compiled access functions in blocks that are counted."""
    count_access(w, mask, site, nbytes, kind, space)


@machine_function("void(int64,int32,int32,int32,int32,int32)")
def vg_sanitize(w, mask, site, nbytes, kind, space):
    """Called by jit/watch.py for what it does not decide itself."""
    sanitize(w, mask, site, nbytes, kind, space, load_i32(w + L.FLAGS))
