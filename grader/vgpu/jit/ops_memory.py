"""Loads, stores and atomics (PTX ISA: "Data Movement", "Parallel Synchronization: atom, red").

Addresses and values go through the warp's scratch area to functions of the machine, one a size and space
(jit/access.py), which check, move, and tell the observers.
"""

from llvmlite import ir

from ..ptx.parse import Imm, Mem, PtxError, Reg, Sym, Vec
from . import layout as L
from .access import LETTERS, function_name
from .table import op
from .values import I8, I32, I64, constant, elem, is_vec, kind_type, vec, width

CACHE = (
    "ca cg cs cv lu wb wt nc volatile relaxed acquire release weak acq_rel sc cta gpu sys cluster mmio "
    "L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate L2::64B L2::128B L2::256B"
)
SPACES = "global shared shared::cta shared::cluster local const param param::entry"
TYPES = "b8 u8 s8 b16 u16 s16 b32 u32 s32 b64 u64 s64 f32 f64 b128"
SPACE_CODES = {"global": L.SPACE_GLOBAL, "shared": L.SPACE_SHARED, "local": L.SPACE_LOCAL, "const": L.SPACE_CONST}


def space_of(i) -> int:
    for p in i.parts:
        code = SPACE_CODES.get(p.split("::")[0])
        if code is not None:
            return code
    return L.SPACE_GENERIC


def put_addresses(lw, mem, offset=L.SCRATCH_ADDRESS):
    v = lw.mem_address(mem) if isinstance(mem, Mem) else lw.src(mem, "b64")
    lw.b.store(lw.bx.splat(v), lw.address(offset))


def param_offset(lw, mem):
    """Byte offset in the parameter block of [param+n], or None when it is no kernel parameter."""
    if isinstance(mem.base, Sym) and mem.base.name in lw.params:
        return lw.params[mem.base.name] + mem.base.offset + mem.offset
    return None


def inside_variable(lw, mem, nbytes) -> bool:
    """True when [variable+n] is known to lie inside the variable: such a read needs no check when it runs."""
    if not isinstance(mem.base, Sym):
        return False
    at = mem.base.offset + mem.offset
    return at >= 0 and at + nbytes <= lw.sizes.get(mem.base.name, 0)


def write_loaded(lw, dest, value, kind):
    """Small types extend into a wider register by their sign."""
    if isinstance(dest, Reg):
        t = kind_type(dest.kind)
        if isinstance(t, ir.IntType) and isinstance(elem(value), ir.IntType) and t.width > elem(value).width:
            value = lw.bx.cast("sext" if kind[0] == "s" else "zext", value, t)
    lw.dst(dest, value)


@op("ld ldu", TYPES, f"{SPACES} {CACHE} v2 v4")
def ld(lw, i):
    kind, mem = i.parts[-1], i.args[1]
    t = kind_type(kind) if kind != "b128" else None
    if t is None:
        raise PtxError(f"line {i.line}: {i.op} is not supported by the virtual GPU")
    dests = i.args[0].items if isinstance(i.args[0], Vec) else (i.args[0],)
    nbytes = width(t) // 8
    if any(p.startswith("param") for p in i.parts):
        offset = param_offset(lw, mem)
        if offset is None:
            raise PtxError(f"line {i.line}: {i.op}: parameters can only be read at fixed places")
        if not inside_variable(lw, mem, nbytes * len(dests)):
            raise PtxError(f"line {i.line}: {i.op} reads past the end of the parameter {mem.base.name}")
        base = lw.b.inttoptr(lw.field(L.PARAMS, I64), ir.PointerType())
        for k, dest in enumerate(dests):
            p = lw.b.gep(base, [constant(I64, offset + k * nbytes)], source_etype=I8)
            write_loaded(lw, dest, lw.b.load(p, typ=t, align=1), kind)
        return
    space = space_of(i)
    address = lw.mem_address(mem)
    uniform = space == L.SPACE_CONST and not is_vec(address)
    if uniform and inside_variable(lw, mem, nbytes * len(dests)):
        for k, dest in enumerate(dests):
            p = lw.b.inttoptr(lw.b.add(address, constant(I64, k * nbytes)), ir.PointerType())
            write_loaded(lw, dest, lw.b.load(p, typ=t, align=1), kind)
        return
    live = 15
    if len(dests) > 1 and space == L.SPACE_SHARED:  # the compiler may load more than the program asks for and uses
        live = sum(1 << k for k, dest in enumerate(dests) if isinstance(dest, Reg) and dest.name in lw.used)
    site = lw.site(i, nbytes * len(dests), space, L.LOAD, live or 15)
    lw.b.store(lw.bx.splat(address), lw.address(L.SCRATCH_ADDRESS))
    call_access(lw, "ld", space, nbytes, len(dests), site)
    for k, dest in enumerate(dests):
        value = lw.b.load(lw.address(L.SCRATCH_VALUE + 32 * nbytes * k), typ=vec(t))
        write_loaded(lw, dest, lw.first_lane(value) if uniform else value, kind)


@op("st", TYPES, f"{SPACES} {CACHE} v2 v4")
def st(lw, i):
    kind, mem = i.parts[-1], i.args[0]
    if kind == "b128" or any(p.startswith("param") for p in i.parts):
        raise PtxError(f"line {i.line}: {i.op} is not supported by the virtual GPU")
    values = i.args[1].items if isinstance(i.args[1], Vec) else (i.args[1],)
    t = kind_type(kind)
    nbytes, space = width(t) // 8, space_of(i)
    site = lw.site(i, nbytes * len(values), space, L.STORE)
    put_addresses(lw, mem)
    for k, v in enumerate(values):
        lw.b.store(lw.bx.splat(lw.src(v, kind)), lw.address(L.SCRATCH_VALUE + 32 * nbytes * k))
    call_access(lw, "st", space, nbytes, len(values), site)


def call_access(lw, what, space, nbytes, count, site):
    """vg_ld4_g(warp, mask, site) and its kin (jit/access.py); generic addresses are told apart lane by lane."""
    args = [lw.active(), constant(I32, site)]
    if space == L.SPACE_CONST:
        space = L.SPACE_GLOBAL
    if space in LETTERS:
        lw.call_machine(function_name(what == "st", nbytes, count, space), ir.VoidType(), args)
    else:
        lw.call_machine(
            f"vg_{what}_any", ir.VoidType(), [*args, constant(I32, nbytes), constant(I32, count), constant(I32, space)]
        )


ATOMIC_OPS = "add sub min max and or xor inc dec exch cas"
ATOMIC_CODES = {name: k for k, name in enumerate(ATOMIC_OPS.split())}
ATOMIC_TYPES = "b16 b32 b64 u32 s32 u64 s64 f32 f64 f16 f16x2 bf16 bf16x2"
TYPE_CODES = {
    "b16": 0,
    "b32": 1,
    "u32": 1,
    "s32": 2,
    "b64": 3,
    "u64": 3,
    "s64": 4,
    "f32": 5,
    "f64": 6,
    "f16": 7,
    "f16x2": 8,
    "bf16": 9,
    "bf16x2": 10,
}
ATOMIC_MODS = f"{SPACES} {CACHE} {ATOMIC_OPS} noftz"


@op("atom", ATOMIC_TYPES, ATOMIC_MODS)
def atom(lw, i):
    atomic(lw, i, i.args[0], i.args[1:])


@op("red", ATOMIC_TYPES, ATOMIC_MODS)
def red(lw, i):
    atomic(lw, i, None, i.args)


def atomic(lw, i, dest, operands):
    kind = i.parts[-1]
    name = next(p for p in i.parts[1:] if p in ATOMIC_CODES)
    t = kind_type(kind)
    nbytes, space = width(t) // 8, space_of(i)
    lw.uses_atomics = lw.uses_atomics or space in (L.SPACE_GLOBAL, L.SPACE_GENERIC)
    put_addresses(lw, operands[0])
    for k, operand in enumerate(operands[1:3]):
        v = lw.bx.splat(lw.src(operand, kind))
        v = lw.bx.cast("bitcast", v, ir.IntType(width(t)))
        v = lw.bx.cast("zext", v, I64)
        lw.b.store(v, lw.address(L.SCRATCH_EXTRA if k else L.SCRATCH_VALUE))
    site = lw.site(i, nbytes, space, L.ATOMIC)
    codes = [constant(I32, c) for c in (ATOMIC_CODES[name], TYPE_CODES[kind], nbytes, space)]
    lw.call_machine("vg_atomic", ir.VoidType(), [lw.active(), constant(I32, site), *codes])
    if dest is not None:
        old = lw.b.load(lw.address(L.SCRATCH_VALUE), typ=vec(I64))
        old = lw.bx.cast("trunc", old, ir.IntType(width(t)))
        lw.dst(dest, lw.bx.cast("bitcast", old, t))


# ---------------------------------------------------------------- asynchronous copies
@op("cp.async", "", "ca cg shared shared::cta global L2::64B L2::128B L2::256B L2::cache_hint")
def cp_async(lw, i):
    size = i.args[2]
    if not isinstance(size, Imm) or size.value not in (4, 8, 16) or ("cg" in i.parts and size.value != 16):
        raise PtxError(f"line {i.line}: cp.async copies 4, 8 or 16 bytes (.ca) or 16 bytes (.cg)")
    lw.uses_async = True
    put_addresses(lw, i.args[1])
    put_addresses(lw, i.args[0], L.SCRATCH_EXTRA)
    limit = constant(I32, size.value)
    if len(i.args) > 3:
        extra = i.args[3]
        if isinstance(extra, Reg) and extra.kind == "pred":
            limit = lw.bx.select(lw.src(extra, "pred"), constant(I32, 0), limit)
        else:
            limit = lw.src(extra, "u32")
    lw.b.store(lw.bx.cast("zext", lw.bx.splat(limit), I64), lw.address(L.SCRATCH_VALUE))
    site = lw.site(i, size.value, L.SPACE_GLOBAL, L.ASYNC_READ)
    lw.call_machine("vg_cp_async", ir.VoidType(), [lw.active(), constant(I32, site), constant(I32, size.value)])


@op("cp.async.commit_group")
def cp_async_commit(lw, i):
    lw.uses_async = True
    lw.call_machine("vg_cp_commit", ir.VoidType(), [lw.active()])


@op("cp.async.wait_group")
def cp_async_wait(lw, i):
    lw.uses_async = True
    lw.call_machine(
        "vg_cp_wait",
        ir.VoidType(),
        [lw.active(), constant(I32, i.args[0].value), constant(I32, lw.site(i, kind=L.ASYNC_WRITE))],
    )


@op("cp.async.wait_all")
def cp_async_wait_all(lw, i):
    lw.uses_async = True
    lw.call_machine("vg_cp_commit", ir.VoidType(), [lw.active()])
    lw.call_machine(
        "vg_cp_wait", ir.VoidType(), [lw.active(), constant(I32, 0), constant(I32, lw.site(i, kind=L.ASYNC_WRITE))]
    )


@op("cp.async.mbarrier.arrive", "b64", "noinc shared shared::cta")
def cp_async_mbarrier_arrive(lw, i):
    lw.uses_async = lw.uses_mbarrier = True
    put_addresses(lw, i.args[0])
    site = lw.site(i, 8, L.SPACE_SHARED, L.ATOMIC)
    lw.call_machine(
        "vg_cp_mbarrier", ir.VoidType(), [lw.active(), constant(I32, site), constant(I32, int("noinc" in i.parts))]
    )


@op("cp.async.bulk", "", "shared::cluster shared::cta global mbarrier::complete_tx::bytes bulk_group L2::cache_hint")
def cp_async_bulk(lw, i):
    lw.uses_async = True
    to_shared = i.parts[3].startswith("shared")
    if "L2::cache_hint" in i.parts or (i.parts[3].startswith("shared") and i.parts[4].startswith("shared")):
        raise PtxError(f"line {i.line}: {i.op} is not supported by the virtual GPU")
    put_addresses(lw, i.args[0], L.SCRATCH_EXTRA)
    put_addresses(lw, i.args[1])
    size = lw.bx.cast("zext", lw.bx.splat(lw.src(i.args[2], "u32")), I64)
    lw.b.store(size, lw.address(L.SCRATCH_VALUE))
    if to_shared:
        lw.uses_mbarrier = True
        put_addresses(lw, i.args[3], L.SCRATCH_VALUE + 256)
    site = lw.site(i, 16, L.SPACE_GLOBAL, L.ASYNC_READ if to_shared else L.ASYNC_WRITE)
    lw.call_machine("vg_bulk", ir.VoidType(), [lw.active(), constant(I32, site), constant(I32, int(to_shared))])


@op("cp.async.bulk.commit_group")
def bulk_commit(lw, i):
    lw.call_machine("vg_bulk_commit", ir.VoidType(), [lw.active()])


@op("cp.async.bulk.wait_group", "", "read")
def bulk_wait(lw, i):
    lw.call_machine("vg_bulk_wait", ir.VoidType(), [lw.active(), constant(I32, i.args[0].value)])
