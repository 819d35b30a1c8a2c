"""Warp operations and services that compiled kernels call: match, redux, clocks, printf, fences."""

import numpy as np

from ..jit import layout as L
from .dispatch import next_epoch
from .raw import inner, load_i32, load_i64, load_u8, machine_function, store_i32, store_i64, store_u8
from .state import B_INDEX, G_ACQUIRED, G_CLOCK, G_NPRINT, G_PRINT, G_PRINT_LOST, G_TIME, MAX_PRINTS, PRINT_ARGS, PRINT_BYTES, grid_of, thread_of


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
    """What the block wrote so far is released to blocks that make an atomic access from now on."""
    if scope == 0:
        return
    g, b = grid_of(w), load_i64(w + L.STATE)
    table = load_i64(g + G_ACQUIRED)
    if table != 0:
        store_i64(table + 16 * load_i64(b + B_INDEX) + 8, load_i64(g + G_CLOCK))
        next_epoch(w)


@inner
def window_address(w, lane, address):
    """Host address of a generic one in local or shared memory; others as they are."""
    window = (address >> L.WINDOW_SHIFT) & 0xFF
    if window == 1:
        return load_i64(w + L.SHARED) + (address & 0xFFFFFFFF)
    if window == 2:
        return load_i64(w + L.LOCAL) + lane * load_i32(w + L.LOCAL_BYTES) + (address & 0xFFFFFFFF)
    return address


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
        room = PRINT_ARGS
        if (args >> L.WINDOW_SHIFT) & 0xFF == 2:
            room = min(PRINT_ARGS, load_i32(w + L.LOCAL_BYTES) - (args & 0xFFFFFFFF))
        source = window_address(w, lane, args) if args != 0 else 0
        for k in range(PRINT_ARGS):
            store_u8(record + 24 + k, load_u8(source + k) if source != 0 and k < room else np.uint8(0))
        store_i64(g + G_NPRINT, n + 1)
