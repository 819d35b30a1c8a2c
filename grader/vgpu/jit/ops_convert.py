"""cvt and its kin (PTX ISA: "Data Movement and Conversion Instructions: cvt")."""

import math

from llvmlite import ir

from ..ptx.parse import PtxError, Reg
from .ops_float import (
    PAIRS,
    as_int,
    directed64,
    fabs,
    flush,
    join,
    narrow,
    odd_double,
    relu,
    round_sum,
    saturate,
    to_odd,
    two_sum,
    widen,
)  # fmt: skip
from .table import op
from .values import F32, F64, I32, I64, constant, elem, kind_type

KINDS = "tf32 s8 u8 s16 u16 s32 u32 s64 u64 f16 bf16 f32 f64 f16x2 bf16x2"
FLOATS = ("f16", "bf16", "f32", "f64")


def source(lw, operand, kind):
    """Operand of type `kind`; a register may be wider than the type."""
    if isinstance(operand, Reg):
        v = lw.read(operand)
        t = kind_type(kind)
        if isinstance(elem(v), ir.IntType) and isinstance(t, ir.IntType) and elem(v).width > t.width:
            return lw.bx.cast("trunc", v, t)
    return lw.src(operand, kind)


def int_to_int(lw, x, skind, dkind, sat):
    bx = lw.bx
    s, d = elem(x).width, int(dkind[1:])
    t = ir.IntType(d)
    if sat:
        wide = ir.IntType(max(s, d) + 1)
        x = bx.cast("sext" if skind[0] == "s" else "zext", x, wide)
        low = -(1 << (d - 1)) if dkind[0] == "s" else 0
        high = (1 << (d - 1)) - 1 if dkind[0] == "s" else (1 << d) - 1
        lo, hi = bx.const(x, low), bx.const(x, high)
        x = bx.select(bx.icmp("<", x, lo, True), lo, x)
        x = bx.select(bx.icmp(">", x, hi, True), hi, x)
        return bx.cast("trunc", x, t)
    if d < s:
        return bx.cast("trunc", x, t)
    return bx.cast("sext" if skind[0] == "s" else "zext", x, t) if d > s else x


def int_to_float(lw, x, skind, dkind, mode):
    bx = lw.bx
    name = "sitofp" if skind[0] == "s" else "uitofp"
    if elem(x).width < 32:
        x = bx.cast("sext" if skind[0] == "s" else "zext", x, I32)
        name = "sitofp"
    wide = elem(x).width == 64
    if dkind == "f64":
        near = bx.cast(name, x, F64)
        if mode == "rn" or not wide:
            return near
        return directed64(lw, near, remainder64(lw, x, skind, near), mode)
    if not wide:
        exact = bx.cast(name, x, F64)
        if dkind == "f32":
            return bx.cast("fptrunc", exact, F32) if mode == "rn" else round_sum(lw, exact, bx.const(exact, 0.0), mode)
        return narrow(lw, to_odd(lw, exact), dkind, mode)
    if dkind == "f32" and mode == "rn":
        return bx.cast(name, x, F32)
    s, e = split64(lw, x, skind)
    if dkind == "f32":
        return round_sum(lw, s, e, mode)
    return narrow(lw, to_odd(lw, odd_double(lw, s, e)), dkind, mode)


def split64(lw, x, skind):
    """A 64-bit integer as an unevaluated sum of two f64."""
    bx = lw.bx
    high = bx.ashr(x, constant(I64, 32)) if skind[0] == "s" else bx.lshr(x, constant(I64, 32))
    low = bx.and_(x, constant(I64, 0xFFFFFFFF))
    h = bx.fmul(bx.cast("sitofp", high, F64), bx.const(bx.cast("sitofp", high, F64), 2.0**32))
    return two_sum(lw, h, bx.cast("uitofp", low, F64))


def remainder64(lw, x, skind, near):
    s, e = split64(lw, x, skind)
    return lw.bx.fadd(lw.bx.fsub(s, near), e)


ROUND_INT = {"rni": "llvm.roundeven", "rzi": "llvm.trunc", "rmi": "llvm.floor", "rpi": "llvm.ceil"}


def float_to_int(lw, x, skind, dkind, mode):
    """Out-of-range values clamp; NaN gives 0, or the lowest bit pattern of the sign bit for 64-bit types (PTX ISA, cvt)."""
    bx = lw.bx
    source64 = elem(x) == F64
    x = bx.call(ROUND_INT[mode], x)
    d = int(dkind[1:])
    t = ir.IntType(d)
    result = ir.VectorType(t, 32) if isinstance(x.type, ir.VectorType) else t
    name = "llvm.fptosi.sat" if dkind[0] == "s" else "llvm.fptoui.sat"
    value = bx.intrinsic(name, result, [x], [result, x.type])
    if source64 or d == 64:
        nan = bx.fcmp("uno", x, x, ordered=False)
        value = bx.select(nan, constant(t, 1 << (d - 1)), value)
    return value


def float_to_float(lw, i, x, skind, dkind, mode):
    bx = lw.bx
    order = {"f16": 0, "bf16": 0, "f32": 1, "f64": 2}
    for r in ROUND_INT:
        if r in i.parts:
            x = widen(lw, x, skind)
            x = bx.call(ROUND_INT[r], x)
            return x if dkind in ("f32", "f64") else narrow(lw, x, dkind)
    if skind == dkind:
        return x
    x = widen(lw, x, skind)
    if order[dkind] > order[skind]:
        return bx.cast("fpext", x, kind_type(dkind)) if elem(x) != kind_type(dkind) else x
    if dkind == "f32":
        if elem(x) == F32:
            return x
        return bx.cast("fptrunc", x, F32) if mode == "rn" else round_sum(lw, x, bx.const(x, 0.0), mode)
    if elem(x) == F64:
        x = to_odd(lw, x)
    return narrow(lw, x, dkind, mode)


@op("cvt", KINDS, "rn rz rm rp rna rni rzi rmi rpi ftz sat relu satfinite")
def cvt(lw, i):
    dkind, skind = i.parts[-2], i.parts[-1]
    mode = next((r for r in ("rn", "rz", "rm", "rp") if r in i.parts), "rn")
    if "satfinite" in i.parts or skind in PAIRS:
        raise PtxError(f"line {i.line}: {i.op} is not supported by the virtual GPU")
    if dkind == "tf32":
        return lw.dst(i.args[0], to_tf32(lw, i))
    if dkind in PAIRS:
        high, low = (lw.src(a, skind) for a in i.args[1:3])
        if "relu" in i.parts:
            high, low = relu(lw, high), relu(lw, low)
        return lw.dst(i.args[0], join(lw, *(narrow(lw, v, PAIRS[dkind], mode) for v in (low, high))))
    x = source(lw, i.args[1], skind)
    if "ftz" in i.parts and skind == "f32":
        x = flush(lw, x)
    if "relu" in i.parts:
        x = relu(lw, x)
    if skind in FLOATS and dkind in FLOATS:
        value = float_to_float(lw, i, x, skind, dkind, mode)
        if "sat" in i.parts:
            value = (
                saturate(lw, value)
                if dkind in ("f32", "f64")
                else narrow(lw, saturate(lw, widen(lw, value, dkind)), dkind)
            )
        if "ftz" in i.parts and dkind == "f32":
            value = flush(lw, value)
    elif skind in FLOATS:
        imode = next((r for r in ROUND_INT if r in i.parts), "rzi")
        value = float_to_int(lw, widen(lw, x, skind), skind, dkind, imode)
    elif dkind in FLOATS:
        value = int_to_float(lw, x, skind, dkind, mode)
        if "sat" in i.parts:
            value = saturate(lw, value)
    else:
        value = int_to_int(lw, x, skind, dkind, "sat" in i.parts)
    return write(lw, i.args[0], value, dkind)


def to_tf32(lw, i):
    """f32 with the fraction rounded to 10 bits: ties away from zero (.rna), to even (.rn), or cut (.rz)."""
    bx = lw.bx
    x = lw.src(i.args[1], "f32")
    if "relu" in i.parts:
        x = relu(lw, x)
    bits = as_int(lw, x)
    if "rna" in i.parts:
        rounded = bx.add(bits, constant(I32, 0x1000))
    elif "rn" in i.parts:
        rounded = bx.add(
            bits, bx.add(constant(I32, 0xFFF), bx.and_(bx.lshr(bits, constant(I32, 13)), constant(I32, 1)))
        )
    else:
        rounded = bits
    rounded = bx.and_(rounded, constant(I32, 0xFFFFE000))
    number = bx.fcmp("<", fabs(lw, x), bx.const(x, math.inf))
    nan = bx.fcmp("uno", x, x, ordered=False)
    return bx.select(nan, constant(I32, 0x7FFFFFFF), bx.select(number, rounded, bits))


def write(lw, dest, value, dkind):
    """A destination register may be wider than the type: extend by its sign."""
    t = kind_type(dest.kind) if isinstance(dest, Reg) else elem(value)
    if isinstance(t, ir.IntType) and isinstance(elem(value), ir.IntType) and t.width > elem(value).width:
        value = lw.bx.cast("sext" if dkind[0] == "s" else "zext", value, t)
    lw.dst(dest, value)


@op("cvt.pack", "s32 u32 u16 s16 u8 s8 b32", "sat")
def cvt_pack(lw, i):
    raise PtxError(f"line {i.line}: {i.op} is not supported by the virtual GPU")
