"""Memory accesses lane by lane: what the compiled access functions do not do themselves, generic addresses, atomics."""

import numpy as np
from numba import types

from ..jit import layout as L
from ..jit.raw import (
    bits_f32,
    bits_f64,
    f32_bits,
    f64_bits,
    inner,
    load_i32,
    load_i64,
    load_u8,
    load_u16,
    load_u32,
    load_u64,
    machine_function,
    store_i64,
    store_u8,
    store_u16,
    store_u32,
    store_u64,
)  # fmt: skip
from ..jit.state import (
    ALLOC_TOUCHED,
    CACHE_WORDS,
    G_PROGRESS,
    G_SITES,
    INITCHECK,
    LIVE_SHIFT,
    SITE_WORDS,
    fault,
    grid_of,
    report,
    thread_of,
)
from .observe import find_allocation, observe


@inner
def windowed(address, space):
    """A bad address, with a mark of the space that it was meant in."""
    if space == L.SPACE_SHARED:
        return address & 0xFFFFFFFF | L.SHARED_WINDOW
    return address & 0xFFFFFFFF | L.LOCAL_WINDOW if space == L.SPACE_LOCAL else address


@inner
def resolve(w, lane, address, nbytes, space, site, align):
    """Host address of a lane's access, or 0 with the fault noted."""
    if space == L.SPACE_GENERIC:
        window = (address >> L.WINDOW_SHIFT) & 0xFF
        if window == 1:
            space = L.SPACE_SHARED
            address = address & 0xFFFFFFFF
        elif window == 2:
            space = L.SPACE_LOCAL
            address = address & 0xFFFFFFFF
        else:
            space = L.SPACE_GLOBAL
    if address & (align - 1):
        fault(w, L.FAULT_MISALIGNED, lane, site, windowed(address, space))
        return 0
    if space == L.SPACE_SHARED:
        if address < 0 or address + nbytes > load_i32(w + L.SHARED_BYTES):
            fault(w, L.FAULT_ADDRESS_RANGE, lane, site, windowed(address, space))
            return 0
        return load_i64(w + L.SHARED) + address
    if space == L.SPACE_LOCAL:
        size = load_i32(w + L.LOCAL_BYTES)
        if address < 0 or address + nbytes > size:
            fault(w, L.FAULT_ADDRESS_RANGE, lane, site, windowed(address, space))
            return 0
        return load_i64(w + L.LOCAL) + lane * size + address
    row = find_allocation(grid_of(w), address)
    if row == 0 or address + nbytes > load_i64(row + 8):
        fault(w, L.FAULT_ADDRESS_RANGE, lane, site, address)
        return 0
    store_i64(row + 8 * ALLOC_TOUCHED, 1)
    cache = load_i64(w + L.CACHE) + 8 * CACHE_WORDS * site
    store_i64(cache, load_i64(row))
    store_i64(cache + 8, load_i64(row + 8))
    store_i64(cache + 16, row)
    return address


@inner
def move(p, slot, nbytes, store):
    if nbytes == 4:
        if store:
            store_u32(p, load_u32(slot))
        else:
            store_u32(slot, load_u32(p))
    elif nbytes == 8:
        if store:
            store_u64(p, load_u64(slot))
        else:
            store_u64(slot, load_u64(p))
    elif nbytes == 1:
        if store:
            store_u8(p, load_u8(slot))
        else:
            store_u8(slot, load_u8(p))
    elif store:
        store_u16(p, load_u16(slot))
    else:
        store_u16(slot, load_u16(p))


@inner
def local_marks(w, p):
    """Where initcheck keeps the marks of a byte of local memory; 0 when p is elsewhere or nothing watches."""
    if load_i32(w + L.FLAGS) & L.OBSERVE_INIT == 0:
        return 0
    offset = p - load_i64(w + L.LOCAL)
    return load_i64(w + L.LOCAL_SHADOW) + offset if 0 <= offset < 32 * load_i32(w + L.LOCAL_BYTES) else 0


@inner
def watch_local(w, p, lane, site, nbytes, store):
    """initcheck of local memory."""
    marks = local_marks(w, p)
    if marks == 0:
        return
    mark = np.uint8(load_i64(w + L.LOCAL_MARK) & 255)
    for k in range(nbytes):
        if store:
            store_u8(marks + k, mark)
        elif load_u8(marks + k) != mark:
            offset = p - load_i64(w + L.LOCAL) - lane * load_i32(w + L.LOCAL_BYTES)
            report(
                grid_of(w), INITCHECK, 2, site, -1, load_i64(w + L.BLOCK_INDEX), thread_of(w, lane), -1, -1, offset, 0
            )
            return


@inner
def access(w, mask, site, nbytes, count, kind, space):
    """Move count elements of nbytes for each lane; values lie element by element, 32 lanes each."""
    total = nbytes * count
    observe(w, mask, site, total, kind, space)
    g = grid_of(w)
    if kind == L.STORE:
        store_i64(g + G_PROGRESS, load_i64(g + G_PROGRESS) + 1)
    used = count
    if kind == L.LOAD and count > 1:  # what the compiler loads and nobody uses may lie beyond the end
        live = load_i64(load_i64(g + G_SITES) + site * SITE_WORDS * 8 + 8) >> LIVE_SHIFT
        while used > 1 and not live >> (used - 1) & 1:
            used -= 1
    for lane in range(32):
        if not mask >> lane & 1:
            continue
        p = resolve(w, lane, load_i64(w + L.SCRATCH_ADDRESS + 8 * lane), used * nbytes, space, site, total)
        for k in range(count):
            slot = w + L.SCRATCH_VALUE + 32 * nbytes * k + nbytes * lane
            if p != 0 and k < used:
                watch_local(w, p + k * nbytes, lane, site, nbytes, kind == L.STORE)
                move(p + k * nbytes, slot, nbytes, kind == L.STORE)
            elif kind != L.STORE:
                if nbytes == 4:
                    store_u32(slot, np.uint32(0))
                elif nbytes == 8:
                    store_u64(slot, np.uint64(0))
                elif nbytes == 2:
                    store_u16(slot, np.uint16(0))
                else:
                    store_u8(slot, np.uint8(0))


@machine_function("void(int64,int32,int32,int32,int32,int32,int32)")
def vg_slow(w, mask, site, nbytes, count, kind, space):
    access(w, mask, site, nbytes, count, kind, space)


@machine_function("void(int64,int32,int32,int32,int32,int32)")
def vg_ld_any(w, mask, site, nbytes, count, space):
    access(w, mask, site, nbytes, count, L.LOAD, space)


@machine_function("void(int64,int32,int32,int32,int32,int32)")
def vg_st_any(w, mask, site, nbytes, count, space):
    access(w, mask, site, nbytes, count, L.STORE, space)


@machine_function("void(int64,int32,int32,int32,int32)")
def vg_local_init(w, mask, site, nbytes, count):
    """Some lane reads local memory that it has not written."""
    for lane in range(32):
        if mask >> lane & 1:
            base = (
                load_i64(w + L.LOCAL) + lane * load_i32(w + L.LOCAL_BYTES) + load_i64(w + L.SCRATCH_ADDRESS + 8 * lane)
            )
            for k in range(count):
                watch_local(w, base + k * nbytes, lane, site, nbytes, False)


# ---------------------------------------------------------------- atomics
ADD, SUB, MIN, MAX, AND, OR, XOR, INC, DEC, EXCH, CAS = range(11)
T_B16, T_U32, T_S32, T_U64, T_S64, T_F32, T_F64, T_F16, T_F16X2, T_BF16, T_BF16X2 = range(11)


@inner
def half_to_float(h):
    """Bits of an fp16 to float32."""
    sign = np.uint32((h >> 15) & 1) << np.uint32(31)
    exponent, fraction = (h >> 10) & 31, h & 1023
    if exponent == 31:
        return bits_f32(sign | np.uint32(0x7F800000) | (np.uint32(fraction) << np.uint32(13)))
    if exponent == 0:
        value = np.float32(fraction) * np.float32(2.0**-24)
        return -value if sign else value
    return bits_f32(sign | (np.uint32(exponent + 112) << np.uint32(23)) | (np.uint32(fraction) << np.uint32(13)))


@inner
def float_to_half(x: types.float32):
    """float32 to the bits of the nearest fp16, ties to even."""
    bits = np.int64(f32_bits(x))
    sign = (bits >> 16) & 0x8000
    a = bits & 0x7FFFFFFF
    if a > 0x7F800000:
        return sign | 0x7E00
    if a >= 0x477FF000:
        return sign | 0x7C00
    if a < 0x38800000:  # subnormal half: scaled so that the adder rounds at the right place
        scaled = abs(np.float64(x)) * 2.0**24
        whole = np.int64(scaled)
        rest = scaled - whole
        if rest > 0.5 or (rest == 0.5 and whole & 1):
            whole += 1
        return sign | whole
    rounded = a + 0xFFF + ((a >> 13) & 1)
    return sign | ((rounded >> 13) - (112 << 10))


@inner
def bfloat_of(x: types.float32):
    bits = np.int64(f32_bits(x))
    if bits & 0x7FFFFFFF > 0x7F800000:
        return 0x7FFF
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) & 0xFFFF


@inner
def add_halves(old, value, bf):
    if bf:
        a = bits_f32(np.uint32((old & 0xFFFF) << 16)) + bits_f32(np.uint32((value & 0xFFFF) << 16))
        return bfloat_of(a)
    return float_to_half(half_to_float(old & 0xFFFF) + half_to_float(value & 0xFFFF))


@inner
def flushed(bits):
    """A subnormal float32 to the zero of its sign."""
    return bits if bits & 0x7F800000 else bits & 0x80000000


@inner
def updated(old, value, compare, op, kind):
    """New content of a word for an atomic: all as zero-extended 64-bit integers."""
    if op == EXCH:
        return value
    if op == CAS:  # PTX: atom.cas d, [a], b, c compares with b and stores c
        return compare if old == value else old
    if op == AND:
        return old & value
    if op == OR:
        return old | value
    if op == XOR:
        return old ^ value
    if kind == T_F32:
        x, y = bits_f32(np.uint32(old)), bits_f32(np.uint32(value))
        return np.int64(f32_bits(x + y))
    if kind == T_F64:
        return np.int64(f64_bits(bits_f64(np.uint64(old)) + bits_f64(np.uint64(value))))
    if kind == T_F16 or kind == T_BF16:
        return add_halves(old, value, kind == T_BF16)
    if kind == T_F16X2 or kind == T_BF16X2:
        bf = kind == T_BF16X2
        return add_halves(old, value, bf) | (add_halves(old >> 16, value >> 16, bf) << 16)
    wide = kind == T_U64 or kind == T_S64
    if op == ADD:
        return old + value if wide else (old + value) & 0xFFFFFFFF
    if op == INC:
        return 0 if old >= value else old + 1
    if op == DEC:
        return value if old == 0 or old > value else old - 1
    x, y = old, value
    if kind == T_S32:
        x, y = np.int64(np.int32(old)), np.int64(np.int32(value))
    less = np.uint64(x) < np.uint64(y) if kind == T_U64 else x < y
    return (old if less else value) if op == MIN else (value if less else old)


@inner
def shared_place(space, address):
    return space == L.SPACE_SHARED or (space == L.SPACE_GENERIC and (address >> L.WINDOW_SHIFT) & 0xFF == 1)


@machine_function("void(int64,int32,int32,int32,int32,int32,int32)")
def vg_atomic(w, mask, site, op, kind, nbytes, space):
    """Lane by lane, in lane order: each sees what the ones before it left."""
    observe(w, mask, site, nbytes, L.ATOMIC, space)
    g = grid_of(w)
    for lane in range(32):
        if not mask >> lane & 1:
            continue
        p = resolve(w, lane, load_i64(w + L.SCRATCH_ADDRESS + 8 * lane), nbytes, space, site, nbytes)
        slot = w + L.SCRATCH_VALUE + 8 * lane
        if p == 0:
            store_i64(slot, 0)
            continue
        watch_local(w, p, lane, site, nbytes, True)
        value, compare = load_i64(slot), load_i64(w + L.SCRATCH_EXTRA + 8 * lane)
        if nbytes == 8:
            old = load_i64(p)
        elif nbytes == 4:
            old = np.int64(load_u32(p))
        else:
            old = np.int64(load_u16(p))
        if kind == T_F32 and op == ADD and not shared_place(space, load_i64(w + L.SCRATCH_ADDRESS + 8 * lane)):
            new = flushed(
                updated(flushed(old), flushed(value), compare, op, kind)
            )  # PTX ISA, atom: in global memory only
        else:
            new = updated(old, value, compare, op, kind)
        if new != old:
            store_i64(g + G_PROGRESS, load_i64(g + G_PROGRESS) + 1)
            if nbytes == 8:
                store_i64(p, new)
            elif nbytes == 4:
                store_u32(p, np.uint32(new))
            else:
                store_u16(p, np.uint16(new))
        store_i64(slot, old)
