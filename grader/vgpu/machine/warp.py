"""Warp operations and services that compiled kernels call: match, redux, clocks, printf, fences."""

import numpy as np

from ..jit import layout as L
from ..jit.raw import inner, load_i32, load_i64, load_u8, machine_function, store_i32, store_i64, store_u8
from ..jit.state import G_NPRINT, G_PRINT, G_PRINT_LOST, G_TIME, MAX_PRINTS, PRINT_ARGS, PRINT_BYTES, grid_of, thread_of
from .observe import find_allocation, release


@machine_function("void(int64,int32,int32)")
def vg_match(w, mask, every):
    """match.any/match.all of 64-bit values; results are int32 at SCRATCH_VALUE + 256."""
    for lane in range(32):
        if not mask >> lane & 1:
            continue
        value = load_i64(w + L.SCRATCH_VALUE + 8 * lane)
        same = 0
        for other in range(32):
            if mask >> other & 1 and load_i64(w + L.SCRATCH_VALUE + 8 * other) == value:
                same |= 1 << other
        if every and np.int32(same) != mask:
            same = 0
        store_i32(w + L.SCRATCH_VALUE + 256 + 4 * lane, same)


@machine_function("int32(int64,int32,int32)")
def vg_redux(w, mask, code):
    """redux.sync over int32 values; code = 2 * operation + signed."""
    operation, signed = code >> 1, code & 1
    total = np.int64(0)
    first = True
    for lane in range(32):
        if not mask >> lane & 1:
            continue
        v = np.int64(load_i32(w + L.SCRATCH_VALUE + 4 * lane))
        if not signed:
            v &= 0xFFFFFFFF
        if first:
            total, first = v, False
        elif operation == 0:
            total += v
        elif operation == 1:
            total = min(total, v)
        elif operation == 2:
            total = max(total, v)
        elif operation == 3:
            total &= v
        elif operation == 4:
            total |= v
        else:
            total ^= v
    return np.int32(total)


@machine_function("int64(int64,int32)")
def vg_clock(w, wall):
    """%clock: rises with every reading, by the cost of one; %globaltimer: the same in ns, on a 1 ns tick."""
    g = grid_of(w)
    now = load_i64(g + G_TIME) + 20
    store_i64(g + G_TIME, now)
    return now


@machine_function("void(int64,int32,int32,int32)")
def vg_fence(w, mask, scope, proxy):
    """What was written so far is released to those that make an atomic access from now on: scope 0 in the block, 1 in all."""
    if load_i32(w + L.FLAGS) & L.OBSERVE_RACE:
        release(w, grid_of(w), load_i64(w + L.STATE), scope)


@inner
def readable(w, lane, address):
    """(host address, bytes that may be read there) of a generic address; no bytes for one that is nobody's."""
    window, offset = (address >> L.WINDOW_SHIFT) & 0xFF, address & 0xFFFFFFFF
    if window == 1:
        return load_i64(w + L.SHARED) + offset, load_i32(w + L.SHARED_BYTES) - offset
    if window == 2:
        size = load_i32(w + L.LOCAL_BYTES)
        return load_i64(w + L.LOCAL) + lane * size + offset, size - offset
    row = find_allocation(grid_of(w), address)
    if row == 0:
        return 0, 0
    return address, load_i64(row + 8) - address


@machine_function("void(int64,int32,int32)")
def vg_printf(w, mask, site):
    """Keep the format's address and the bytes of the arguments; the host formats them once the kernel is over."""
    g = grid_of(w)
    for lane in range(32):
        if not mask >> lane & 1:
            continue
        n = load_i64(g + G_NPRINT)
        if n >= MAX_PRINTS:
            store_i64(g + G_PRINT_LOST, load_i64(g + G_PRINT_LOST) + 1)
            continue
        record = load_i64(g + G_PRINT) + n * PRINT_BYTES
        store_i64(record, load_i64(w + L.BLOCK_INDEX))
        store_i64(record + 8, thread_of(w, lane))
        store_i64(record + 16, load_i64(w + L.SCRATCH_ADDRESS + 8 * lane))
        args = load_i64(w + L.SCRATCH_VALUE + 8 * lane)
        source, room = readable(w, lane, args)
        for k in range(PRINT_ARGS):
            store_u8(record + 24 + k, load_u8(source + k) if k < room else np.uint8(0))
        store_i64(g + G_NPRINT, n + 1)
