"""LLVM values of a warp: a scalar stands for the same value in all lanes, a vector has one element a lane."""

import struct

from llvmlite import ir

from ..ptx.parse import PtxError
from .layout import LANES

I1, I8, I16, I32, I64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
F32, F64 = ir.FloatType(), ir.DoubleType()
HALF = ir.HalfType()
PTR = ir.PointerType()

LLVM_TYPES = {
    "pred": I1, "b8": I8, "u8": I8, "s8": I8, "b16": I16, "u16": I16, "s16": I16, "f16": I16, "bf16": I16, "b32": I32,
    "u32": I32, "s32": I32, "f16x2": I32, "bf16x2": I32, "b64": I64, "u64": I64, "s64": I64, "f32": F32, "f64": F64,
}  # fmt: skip


def vec(t):
    return ir.VectorType(t, LANES)


def is_vec(v) -> bool:
    return isinstance(v.type, ir.VectorType)


def elem(v):
    """Element type of a scalar or vector value."""
    return v.type.element if is_vec(v) else v.type


def width(t) -> int:
    """Bits of an LLVM scalar type."""
    if isinstance(t, ir.IntType):
        return t.width
    return {ir.FloatType: 32, ir.DoubleType: 64, ir.HalfType: 16}[type(t)]


def constant(t, value):
    """A scalar constant; floating-point ones from a Python float, exactly when it is representable."""
    if isinstance(t, ir.IntType):
        return ir.Constant(t, value & ((1 << t.width) - 1))
    return ir.Constant(t, float(value))


def bits_to_float(bits: int, kind: str):
    """The Python float of an f32/f64 literal's bits; NaNs keep only being NaN."""
    return (
        struct.unpack("<f", struct.pack("<I", bits))[0]
        if kind == "f32"
        else struct.unpack("<d", struct.pack("<Q", bits))[0]
    )


class Splat(ir.Constant):
    """A vector constant whose elements are all the same, written as such: much shorter text for LLVM to read."""

    def __init__(self, scalar: ir.Constant):
        self.type, self.constant, self.scalar = vec(scalar.type), (scalar.constant,) * LANES, scalar

    def _get_reference(self):
        return f"splat ({self.scalar.type} {self.scalar.get_reference()})"


class Builder:
    """An IRBuilder whose operations take scalars and vectors mixed; a result is a scalar when all operands are."""

    def __init__(self, ir_builder: ir.IRBuilder, module: ir.Module):
        self.b, self.module = ir_builder, module

    # ---- shapes
    def splat(self, v):
        if is_vec(v):
            return v
        if isinstance(v, ir.Constant) and v.constant is not ir.Undefined:
            return Splat(v)
        undef = ir.Constant(vec(v.type), ir.Undefined)
        one = self.b.insert_element(undef, v, ir.Constant(I32, 0))
        return self.b.shuffle_vector(one, undef, ir.Constant(vec(I32), [0] * LANES))

    def same(self, *values):
        """All scalars, or all vectors."""
        return [self.splat(v) for v in values] if any(is_vec(v) for v in values) else list(values)

    def const(self, like, value):
        """A constant of the type and shape of `like`."""
        c = constant(elem(like), value)
        return self.splat(c) if is_vec(like) else c

    def typed(self, like, t):
        """LLVM type with `like`'s shape and element t."""
        return vec(t) if is_vec(like) else t

    # ---- operations
    def bin(self, name, x, y):
        x, y = self.same(x, y)
        return getattr(self.b, name)(x, y)

    def __getattr__(self, name):
        if name in {
            "add", "sub", "mul", "sdiv", "udiv", "srem", "urem", "and_", "or_", "xor", "shl", "lshr", "ashr", "fadd", "fsub",
            "fmul", "fdiv",
        }:  # fmt: skip
            return lambda x, y: self.bin(name, x, y)
        raise AttributeError(name)

    def not_(self, x):
        return self.b.not_(x)

    def neg(self, x):
        return self.b.sub(self.const(x, 0), x)

    def fneg(self, x):
        return self.b.fneg(x)

    def icmp(self, cmp, x, y, signed=False):
        x, y = self.same(x, y)
        return (self.b.icmp_signed if signed else self.b.icmp_unsigned)(cmp, x, y)

    def fcmp(self, cmp, x, y, ordered=True):
        x, y = self.same(x, y)
        return (self.b.fcmp_ordered if ordered else self.b.fcmp_unordered)(cmp, x, y)

    def select(self, p, x, y):
        if is_vec(p) or is_vec(x) or is_vec(y):
            x, y = self.splat(x), self.splat(y)
            p = self.splat(p)
        return self.b.select(p, x, y)

    def cast(self, name, x, t):
        """zext, sext, trunc, bitcast, sitofp, ... to element type t; nothing when it is that already."""
        if elem(x) == t and name not in ("sitofp", "uitofp"):
            return x
        return getattr(self.b, name)(x, self.typed(x, t))

    def call(self, name, *args, result=None):
        """An overloaded LLVM intrinsic, e.g. call("llvm.fma", a, b, c): the suffix follows the first operand's type."""
        args = self.same(*args)
        return self.intrinsic(name, result or args[0].type, args, [args[0].type])

    def intrinsic(self, name, result, args, overload):
        full = name + "".join("." + _suffix(t) for t in overload)
        fn = self.module.globals.get(full)
        if fn is None:
            fn = ir.Function(self.module, ir.FunctionType(result, [a.type for a in args]), full)
        return self.b.call(fn, args)

    def bitcast_mask(self, p):
        """<32 x i1> -> i32; a scalar i1 -> all ones or zero."""
        if is_vec(p):
            return self.b.bitcast(p, I32)
        return self.b.sext(p, I32)

    def to_mask(self, bits):
        """i32 -> <32 x i1>."""
        return self.b.bitcast(bits, vec(I1))


def _suffix(t) -> str:
    if isinstance(t, ir.VectorType):
        return f"v{t.count}{_suffix(t.element)}"
    if isinstance(t, ir.IntType):
        return f"i{t.width}"
    if isinstance(t, ir.PointerType):
        return "p0"
    return {ir.FloatType: "f32", ir.DoubleType: "f64", ir.HalfType: "f16"}[type(t)]


def kind_type(kind: str):
    """LLVM element type of a PTX type. Raises PtxError for one that no register has."""
    try:
        return LLVM_TYPES[kind]
    except KeyError:
        raise PtxError(f"type .{kind} is not supported by the virtual GPU") from None
