"""Integer arithmetic, comparison, selection, logic and shifts (PTX ISA: "Integer Arithmetic Instructions",
"Extended-Precision Integer Arithmetic", "Comparison and Selection", "Logic and Shift Instructions")."""

from llvmlite import ir

from ..ptx.cfg import CARRY
from ..ptx.parse import Imm, PtxError, Vec
from .table import op
from .values import F32, I1, I16, I32, I64, constant, elem, kind_type, width

INT = "s16 u16 s32 u32 s64 u64"
BIT = "pred b16 b32 b64"


def signed(kind: str) -> bool:
    return kind[0] == "s"


def kind_of(instr) -> str:
    return instr.parts[-1]


def args(lw, instr, kind=None):
    kind = kind or kind_of(instr)
    return [lw.src(a, kind) for a in instr.args[1:]]


# ---------------------------------------------------------------- add, sub, carries
def add_carry(lw, x, y, carry):
    """-> (sum, carry out) of x + y + carry (an i1 or None)."""
    bx = lw.bx
    x, y = bx.same(x, y)
    total = bx.add(x, y)
    out = bx.icmp("<", total, x)
    if carry is not None:
        c = bx.cast("zext", carry, elem(total))
        again = bx.add(total, c)
        out = bx.or_(out, bx.icmp("<", again, total))
        total = again
    return total, out


def set_carry(lw, i, value):
    if "cc" in i.parts:
        lw.dst(CARRY, value)


def lanes16(lw, x):
    """A pair of 16-bit integers in 32 bits, as (low, high)."""
    bx = lw.bx
    return bx.cast("trunc", x, I16), bx.cast("trunc", bx.lshr(x, constant(I32, 16)), I16)


def pair_op(lw, i, compute):
    """Apply compute to the halves of u16x2 or s16x2 operands."""
    bx = lw.bx
    low, high = (compute(*halves) for halves in zip(*(lanes16(lw, lw.src(a, "b32")) for a in i.args[1:]), strict=True))
    lw.dst(i.args[0], bx.or_(bx.cast("zext", low, I32), bx.shl(bx.cast("zext", high, I32), constant(I32, 16))))


@op("add", INT + " u16x2 s16x2 f32 f64 f16 f16x2 bf16 bf16x2", "cc sat rn rz rm rp ftz")
def add(lw, i):
    kind = kind_of(i)
    if kind in ("u16x2", "s16x2"):
        return pair_op(lw, i, lw.bx.add)
    if kind not in INT.split():
        from .ops_float import float_add

        return float_add(lw, i)
    x, y = args(lw, i)
    if "sat" in i.parts:
        value = lw.bx.call("llvm.sadd.sat", x, y)
    elif "cc" in i.parts:
        value, out = add_carry(lw, x, y, None)
        set_carry(lw, i, out)
    else:
        value = lw.bx.add(x, y)
    return lw.dst(i.args[0], value)


@op("addc", INT, "cc")
def addc(lw, i):
    value, out = add_carry(lw, *args(lw, i), lw.read(CARRY))
    set_carry(lw, i, out)
    lw.dst(i.args[0], value)


@op("sub", INT + " f32 f64 f16 f16x2 bf16 bf16x2", "cc sat rn rz rm rp ftz")
def sub(lw, i):
    kind = kind_of(i)
    if kind not in INT.split():
        from .ops_float import float_sub

        return float_sub(lw, i)
    x, y = args(lw, i)
    if "sat" in i.parts:
        return lw.dst(i.args[0], lw.bx.call("llvm.ssub.sat", x, y))
    value = lw.bx.sub(x, y)
    if "cc" in i.parts:
        set_carry(lw, i, lw.bx.icmp("<", x, y))
    return lw.dst(i.args[0], value)


@op("subc", INT, "cc")
def subc(lw, i):
    bx = lw.bx
    x, y = bx.same(*args(lw, i))
    borrow = lw.read(CARRY)
    part = bx.sub(x, y)
    c = bx.cast("zext", borrow, elem(part))
    out = bx.or_(bx.icmp("<", x, y), bx.icmp("<", part, c))
    set_carry(lw, i, out)
    lw.dst(i.args[0], bx.sub(part, c))


# ---------------------------------------------------------------- multiply
def product(lw, x, y, part: str, kind: str):
    """lo, hi or wide part of an integer product."""
    bx = lw.bx
    if part == "lo":
        return bx.mul(x, y)
    t = elem(x)
    wide = ir.IntType(t.width * 2)
    grow = "sext" if signed(kind) else "zext"
    full = bx.mul(bx.cast(grow, x, wide), bx.cast(grow, y, wide))
    if part == "wide":
        return full
    return bx.cast("trunc", bx.lshr(full, bx.const(full, t.width)), t)


def part_of(instr) -> str:
    for p in ("lo", "hi", "wide"):
        if p in instr.parts:
            return p
    raise PtxError(f"line {instr.line}: {instr.op} needs .lo, .hi or .wide")


@op("mul", INT + " f32 f64 f16 f16x2 bf16 bf16x2", "lo hi wide rn rz rm rp ftz sat")
def mul(lw, i):
    kind = kind_of(i)
    if kind not in INT.split():
        from .ops_float import float_mul

        return float_mul(lw, i)
    x, y = args(lw, i)
    return lw.dst(i.args[0], product(lw, x, y, part_of(i), kind))


@op("mad", INT + " f32 f64", "lo hi wide cc sat rn rz rm rp ftz")
def mad(lw, i):
    kind = kind_of(i)
    if kind not in INT.split():
        from .ops_float import fma

        return fma(lw, i)
    part = part_of(i)
    x, y = (lw.src(a, kind) for a in i.args[1:3])
    p = product(lw, x, y, part, kind)
    z = lw.src(i.args[3], kind if part != "wide" else kind[0] + str(2 * int(kind[1:])))
    if "sat" in i.parts:
        return lw.dst(i.args[0], lw.bx.call("llvm.sadd.sat", p, z))
    if "cc" in i.parts:
        value, out = add_carry(lw, p, z, None)
        set_carry(lw, i, out)
    else:
        value = lw.bx.add(p, z)
    return lw.dst(i.args[0], value)


@op("madc", INT, "lo hi cc")
def madc(lw, i):
    x, y, z = args(lw, i)
    value, out = add_carry(lw, product(lw, x, y, part_of(i), kind_of(i)), z, lw.read(CARRY))
    set_carry(lw, i, out)
    lw.dst(i.args[0], value)


@op("mul24 mad24", "s32 u32", "lo hi sat")
def mul24(lw, i):
    bx, kind = lw.bx, kind_of(i)
    eight = constant(I32, 8)

    def low24(v):
        return (bx.ashr if signed(kind) else bx.lshr)(bx.shl(v, eight), eight)

    x, y = (low24(lw.src(a, kind)) for a in i.args[1:3])
    full = product(lw, x, y, "wide", kind)
    value = bx.cast("trunc", full if "lo" in i.parts else bx.lshr(full, constant(I64, 16)), I32)
    if i.parts[0] == "mad24":
        z = lw.src(i.args[3], kind)
        value = bx.call("llvm.sadd.sat", value, z) if "sat" in i.parts else bx.add(value, z)
    lw.dst(i.args[0], value)


@op("sad", INT)
def sad(lw, i):
    bx, kind = lw.bx, kind_of(i)
    x, y, z = args(lw, i)
    less = bx.icmp("<", x, y, signed(kind))
    lw.dst(i.args[0], bx.add(z, bx.select(less, bx.sub(y, x), bx.sub(x, y))))


def dot(lw, i, bits, first):
    """Sum of products of `bits`-wide parts of a and bytes of b, the latter from byte `first` on, and c."""
    bx = lw.bx
    x, y, z = (lw.src(a, "b32") for a in i.args[1:])
    for k in range(32 // bits):
        pieces = []
        for v, kind, n, at in ((x, i.parts[-2], bits, bits * k), (y, i.parts[-1], 8, 8 * (first + k))):
            part = bx.cast("trunc", bx.lshr(v, constant(I32, at)), ir.IntType(n))
            pieces.append(bx.cast("sext" if signed(kind) else "zext", part, I32))
        z = bx.add(z, bx.mul(*pieces))
    lw.dst(i.args[0], z)


@op("dp4a", "s32 u32")
def dp4a(lw, i):
    dot(lw, i, 8, 0)


@op("dp2a", "s32 u32", "lo hi")
def dp2a(lw, i):
    dot(lw, i, 16, 2 if "hi" in i.parts else 0)


# ---------------------------------------------------------------- divide
@op("div", INT + " f32 f64", "rn rz rm rp ftz approx full")
def div(lw, i):
    kind = kind_of(i)
    if kind not in INT.split():
        from .ops_float import float_div

        return float_div(lw, i)
    return lw.dst(i.args[0], quotient(lw, i, kind, remainder=False))


@op("rem", INT)
def rem(lw, i):
    lw.dst(i.args[0], quotient(lw, i, kind_of(i), remainder=True))


def quotient(lw, i, kind, remainder):
    """x / y or x % y. PTX leaves division by zero open; as on current GPUs it gives all ones (and x for %)."""
    bx = lw.bx
    x, y = bx.same(*(lw.src(a, kind) for a in i.args[1:3]))
    zero = bx.icmp("==", y, bx.const(y, 0))
    safe = bx.select(zero, bx.const(y, 1), y)
    if signed(kind):
        minus = bx.icmp("==", y, bx.const(y, -1))
        safe = bx.select(minus, bx.const(y, 1), safe)  # MIN / -1 traps on a CPU: negate instead
        if remainder:
            return bx.select(zero, x, bx.srem(x, safe))
        value = bx.sdiv(x, safe)
        value = bx.select(minus, bx.neg(x), value)
    else:
        if remainder:
            return bx.select(zero, x, bx.urem(x, safe))
        value = bx.udiv(x, safe)
    return bx.select(zero, bx.const(y, -1), value)


# ---------------------------------------------------------------- one operand and order
@op("abs", "s16 s32 s64 f32 f64 f16 f16x2 bf16 bf16x2", "ftz")
def abs_(lw, i):
    kind = kind_of(i)
    if kind[0] != "s":
        from .ops_float import float_abs

        return float_abs(lw, i)
    (x,) = args(lw, i)
    return lw.dst(i.args[0], lw.bx.select(lw.bx.icmp("<", x, lw.bx.const(x, 0), True), lw.bx.neg(x), x))


@op("neg", "s16 s32 s64 f32 f64 f16 f16x2 bf16 bf16x2", "ftz")
def neg(lw, i):
    if kind_of(i)[0] != "s":
        from .ops_float import float_neg

        return float_neg(lw, i)
    (x,) = args(lw, i)
    return lw.dst(i.args[0], lw.bx.neg(x))


@op("min max", INT + " u16x2 s16x2 f32 f64 f16 f16x2 bf16 bf16x2", "ftz NaN xorsign abs relu")
def minmax(lw, i):
    bx, kind = lw.bx, kind_of(i)
    if kind not in INT.split() and kind not in ("u16x2", "s16x2"):
        from .ops_float import float_minmax

        return float_minmax(lw, i)

    def pick(x, y):
        x, y = bx.same(x, y)
        less = bx.icmp("<", x, y, signed(kind))
        value = bx.select(less, x, y) if i.parts[0] == "min" else bx.select(less, y, x)
        if "relu" in i.parts:
            value = bx.select(bx.icmp("<", value, bx.const(value, 0), True), bx.const(value, 0), value)
        return value

    if kind.endswith("x2"):
        return pair_op(lw, i, pick)
    return lw.dst(i.args[0], pick(*args(lw, i)))


# ---------------------------------------------------------------- bits
@op("popc", "b32 b64")
def popc(lw, i):
    (x,) = args(lw, i)
    lw.dst(i.args[0], lw.bx.cast("trunc", lw.bx.call("llvm.ctpop", x), I32))


def leading_zeros(lw, x):
    bx = lw.bx
    return bx.intrinsic("llvm.ctlz", x.type, [x, constant(I1, 0)], [x.type])


@op("clz", "b32 b64")
def clz(lw, i):
    (x,) = args(lw, i)
    lw.dst(i.args[0], lw.bx.cast("trunc", leading_zeros(lw, x), I32))


@op("brev", "b32 b64")
def brev(lw, i):
    (x,) = args(lw, i)
    lw.dst(i.args[0], lw.bx.call("llvm.bitreverse", x))


@op("bfind", "s32 u32 s64 u64", "shiftamt")
def bfind(lw, i):
    bx, kind = lw.bx, kind_of(i)
    (x,) = args(lw, i)
    bits = width(elem(x))
    if signed(kind):
        x = bx.xor(x, bx.ashr(x, bx.const(x, bits - 1)))
    none = bx.icmp("==", x, bx.const(x, 0))
    zeros = bx.cast("trunc", leading_zeros(lw, x), I32)
    where = zeros if "shiftamt" in i.parts else bx.sub(constant(I32, bits - 1), zeros)
    lw.dst(i.args[0], bx.select(none, constant(I32, -1), where))


@op("bfe", "s32 u32 s64 u64")
def bfe(lw, i):
    bx, kind = lw.bx, kind_of(i)
    x = lw.src(i.args[1], kind)
    t, bits = elem(x), width(elem(x))
    pos, length = (bx.and_(lw.src(a, "u32"), constant(I32, 255)) for a in i.args[2:4])
    pos, length = (bx.cast("zext", v, t) if bits == 64 else v for v in (pos, length))
    over = bx.icmp(">=", pos, constant(t, bits))
    room = bx.select(over, constant(t, 0), bx.sub(constant(t, bits), pos))
    length = bx.select(bx.icmp("<", length, room), length, room)
    moved = bx.lshr(x, bx.select(over, constant(t, 0), pos))
    empty = bx.icmp("==", length, constant(t, 0))
    keep = bx.select(empty, constant(t, 0), bx.sub(constant(t, bits), length))
    field = bx.shl(moved, keep)
    if signed(kind):
        value = bx.ashr(field, keep)
        sign = bx.ashr(x, constant(t, bits - 1))  # a field past the end is filled with the sign
        wanted = bx.icmp("!=", bx.and_(lw.src(i.args[3], "u32"), constant(I32, 255)), constant(I32, 0))
        value = bx.select(empty, bx.select(wanted, sign, constant(t, 0)), value)
    else:
        value = bx.select(empty, constant(t, 0), bx.lshr(field, keep))
    lw.dst(i.args[0], value)


@op("bfi", "b32 b64")
def bfi(lw, i):
    bx, kind = lw.bx, kind_of(i)
    a, b = (lw.src(x, kind) for x in i.args[1:3])
    t, bits = elem(a), width(elem(a))
    pos, length = (bx.and_(lw.src(x, "u32"), constant(I32, 255)) for x in i.args[3:5])
    pos, length = (bx.cast("zext", v, t) if bits == 64 else v for v in (pos, length))
    ones = constant(t, -1)
    all_ = bx.icmp(">=", length, constant(t, bits))
    low = bx.sub(bx.shl(constant(t, 1), bx.select(all_, constant(t, 0), length)), constant(t, 1))
    mask = bx.select(all_, ones, low)
    over = bx.icmp(">=", pos, constant(t, bits))
    shift = bx.select(over, constant(t, 0), pos)
    mask = bx.select(over, constant(t, 0), bx.shl(mask, shift))
    lw.dst(i.args[0], bx.or_(bx.and_(b, bx.not_(mask)), bx.and_(bx.shl(a, shift), mask)))


@op("bmsk", "b32", "clamp wrap")
def bmsk(lw, i):
    bx = lw.bx
    pos, length = (lw.src(a, "u32") for a in i.args[1:3])
    limit = constant(I32, 32)
    if "wrap" in i.parts:
        pos, length = (bx.and_(v, constant(I32, 31)) for v in (pos, length))
    whole = bx.icmp(">=", length, limit)
    low = bx.sub(bx.shl(constant(I32, 1), bx.select(whole, constant(I32, 0), length)), constant(I32, 1))
    mask = bx.select(whole, constant(I32, -1), low)
    over = bx.icmp(">=", pos, limit)
    lw.dst(i.args[0], bx.select(over, constant(I32, 0), bx.shl(mask, bx.select(over, constant(I32, 0), pos))))


@op("szext", "s32 u32", "clamp wrap")
def szext(lw, i):
    bx = lw.bx
    x, n = (lw.src(a, "u32") for a in i.args[1:3])
    if "wrap" in i.parts:
        n = bx.and_(n, constant(I32, 31))
    whole = bx.icmp(">=", n, constant(I32, 32))
    none = bx.icmp("==", n, constant(I32, 0))
    room = bx.select(bx.or_(whole, none), constant(I32, 0), bx.sub(constant(I32, 32), n))
    field = bx.shl(x, room)
    value = (bx.ashr if signed(kind_of(i)) else bx.lshr)(field, room)
    lw.dst(i.args[0], bx.select(none, constant(I32, 0), value))


@op("and or xor", BIT)
def logic(lw, i):
    x, y = args(lw, i)
    lw.dst(i.args[0], lw.bx.bin({"and": "and_", "or": "or_", "xor": "xor"}[i.parts[0]], x, y))


@op("not", BIT)
def not_(lw, i):
    (x,) = args(lw, i)
    lw.dst(i.args[0], lw.bx.not_(x))


@op("cnot", "b16 b32 b64")
def cnot(lw, i):
    (x,) = args(lw, i)
    lw.dst(i.args[0], lw.bx.cast("zext", lw.bx.icmp("==", x, lw.bx.const(x, 0)), elem(x)))


@op("lop3", "b32", "and or")
def lop3(lw, i):
    bx = lw.bx
    a, b, c = (lw.src(x, "b32") for x in i.args[1:4])
    table = i.args[4]
    if not isinstance(table, Imm):
        raise PtxError(f"line {i.line}: lop3 needs an immediate look-up table")
    value = constant(I32, 0)
    for k in range(8):
        if table.value >> k & 1:
            term = bx.and_(bx.and_(a if k & 4 else bx.not_(a), b if k & 2 else bx.not_(b)), c if k & 1 else bx.not_(c))
            value = bx.or_(value, term)
    dest = i.args[0]
    if isinstance(dest, Vec):  # lop3.and/.or d|p, a, b, c, table, q
        p = bx.bin(
            "and_" if "and" in i.parts else "or_", bx.icmp("!=", value, bx.const(value, 0)), lw.src(i.args[5], "pred")
        )
        lw.dst(dest.items[1], p)
        dest = dest.items[0]
    lw.dst(dest, value)


@op("shl", "b16 b32 b64")
def shl(lw, i):
    shift(lw, i, "shl")


@op("shr", "b16 b32 b64 s16 s32 s64 u16 u32 u64")
def shr(lw, i):
    shift(lw, i, "ashr" if signed(kind_of(i)) else "lshr")


def shift(lw, i, name):
    """Shift amounts of the width or more give 0, or copies of the sign (PTX clamps; LLVM does not)."""
    bx = lw.bx
    x = lw.src(i.args[1], kind_of(i))
    t, bits = elem(x), width(elem(x))
    amount = i.args[2]
    if isinstance(amount, Imm):
        n = amount.value & 0xFFFFFFFF
        if n >= bits:
            n = bits - 1 if name == "ashr" else None
        value = bx.const(x, 0) if n is None else bx.bin(name, x, constant(t, n))
        return lw.dst(i.args[0], value)
    n = lw.src(amount, "u32")
    over = bx.icmp(">=", n, constant(I32, bits))
    n = bx.select(over, constant(I32, bits - 1 if name == "ashr" else 0), n)
    n = bx.cast("zext", n, t) if bits == 64 else bx.cast("trunc", n, t) if bits == 16 else n
    value = bx.bin(name, x, n)
    if name != "ashr":
        value = bx.select(over, bx.const(value, 0), value)
    return lw.dst(i.args[0], value)


@op("shf", "b32", "l r wrap clamp")
def shf(lw, i):
    bx = lw.bx
    low, high, n = (lw.src(a, "b32") for a in i.args[1:4])
    pair = bx.or_(bx.cast("zext", low, I64), bx.shl(bx.cast("zext", high, I64), constant(I64, 32)))
    if "wrap" in i.parts:
        n = bx.and_(n, constant(I32, 31))
    else:
        n = bx.select(bx.icmp("<", n, constant(I32, 32)), n, constant(I32, 32))
    n = bx.cast("zext", n, I64)
    if "l" in i.parts:
        value = bx.lshr(bx.shl(pair, n), constant(I64, 32))
    else:
        value = bx.lshr(pair, n)
    lw.dst(i.args[0], bx.cast("trunc", value, I32))


@op("prmt", "b32", "f4e b4e rc8 ecl ecr rc16")
def prmt(lw, i):
    bx = lw.bx
    mode = i.parts[2] if len(i.parts) > 2 else None
    a, b, c = (lw.src(x, "b32") for x in i.args[1:4])
    pair = bx.or_(bx.cast("zext", a, I64), bx.shl(bx.cast("zext", b, I64), constant(I64, 32)))
    value = constant(I32, 0)
    sel = bx.and_(c, constant(I32, 3))
    for k in range(4):
        if mode is None:
            pick = bx.and_(bx.lshr(c, constant(I32, 4 * k)), constant(I32, 15))
            where = bx.and_(pick, constant(I32, 7))
        else:
            n = constant(I32, k)
            where = {
                "f4e": lambda n=n: bx.add(sel, n),
                "b4e": lambda n=n: bx.and_(bx.sub(sel, n), constant(I32, 7)),
                "rc8": lambda: sel,
                "ecl": lambda n=n: bx.select(bx.icmp(">", sel, n), sel, n),
                "ecr": lambda n=n: bx.select(bx.icmp("<", sel, n), sel, n),
                "rc16": lambda k=k: bx.or_(
                    bx.shl(bx.and_(sel, constant(I32, 1)), constant(I32, 1)), constant(I32, k & 1)
                ),
            }[mode]()
            pick = None
        at = bx.cast("zext", bx.shl(where, constant(I32, 3)), I64)
        byte = bx.cast("trunc", bx.and_(bx.lshr(pair, at), constant(I64, 255)), I32)
        if pick is not None:
            sign = bx.icmp("!=", bx.and_(pick, constant(I32, 8)), constant(I32, 0))
            spread = bx.select(
                bx.icmp("!=", bx.and_(byte, constant(I32, 128)), constant(I32, 0)), constant(I32, 255), constant(I32, 0)
            )
            byte = bx.select(sign, spread, byte)
        value = bx.or_(value, bx.shl(byte, constant(I32, 8 * k)))
    lw.dst(i.args[0], value)


# ---------------------------------------------------------------- comparison and selection
INT_COMPARE = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "lo": "<",
    "ls": "<=",
    "hi": ">",
    "hs": ">=",
}
FLOAT_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def compare(lw, x, y, cmp: str, kind: str, ftz=False):
    """An i1 of `x cmp y`; the unordered forms (equ, ltu, ...) are true when an operand is NaN."""
    bx = lw.bx
    if kind in ("f32", "f64", "f16", "bf16"):
        from .ops_float import flush, flush_half, widen

        if ftz and kind == "f16":
            x, y = flush_half(lw, x), flush_half(lw, y)
        x, y = (widen(lw, v, kind) for v in (x, y))
        if ftz and kind == "f32":
            x, y = flush(lw, x), flush(lw, y)
        if cmp == "num":
            return bx.fcmp("ord", x, y)
        if cmp == "nan":
            return bx.fcmp("uno", x, y, ordered=False)
        if cmp in FLOAT_COMPARE and cmp != "ne":
            return bx.fcmp(FLOAT_COMPARE[cmp], x, y)
        if cmp == "ne":
            return bx.fcmp("!=", x, y)
        return bx.fcmp(FLOAT_COMPARE[cmp[:-1]], x, y, ordered=False)
    return bx.icmp(INT_COMPARE[cmp], x, y, signed(kind))


COMPARES = "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan and or xor ftz"
COMPARE_TYPES = "b16 b32 b64 s16 u16 s32 u32 s64 u64 f32 f64 f16 bf16 f16x2 bf16x2 pred"


def with_third(lw, i, p):
    """`p` combined with the third operand as .and, .or or .xor says."""
    for name, method in (("and", "and_"), ("or", "or_"), ("xor", "xor")):
        if name in i.parts[2:]:
            return lw.bx.bin(method, p, lw.src(i.args[3], "pred"))
    return p


def compare_pair(lw, i):
    """-> comparisons of the low and of the high halves of f16x2 or bf16x2 operands."""
    halves = (lanes16(lw, lw.src(a, "b32")) for a in i.args[1:3])
    return [compare(lw, x, y, i.parts[1], kind_of(i)[:-2], "ftz" in i.parts) for x, y in zip(*halves, strict=True)]


@op("setp", COMPARE_TYPES, COMPARES)
def setp(lw, i):
    kind, dest = kind_of(i), i.args[0]
    if kind in ("f16x2", "bf16x2"):  # p and q are those of the two halves
        p, q = compare_pair(lw, i)
    else:
        p = compare(lw, *(lw.src(a, kind) for a in i.args[1:3]), i.parts[1], kind, "ftz" in i.parts)
        q = lw.bx.not_(p)
    dests = dest.items if isinstance(dest, Vec) else (dest,)
    values = [with_third(lw, i, v) for v in (p, q)]
    for d, v in zip(dests, values, strict=False):
        lw.dst(d, v)


@op("set", COMPARE_TYPES, COMPARES)
def set_(lw, i):
    """All ones, or 1.0 for a floating-point destination, where the comparison holds; else zero."""
    bx, dtype, kind = lw.bx, i.parts[-2], i.parts[-1]
    ones = {"f16": 0x3C00, "bf16": 0x3F80}.get(dtype.removesuffix("x2"), 0xFFFF)
    if kind in ("f16x2", "bf16x2"):
        low, high = (with_third(lw, i, p) for p in compare_pair(lw, i))
        words = [bx.select(p, constant(I32, ones << at), constant(I32, 0)) for p, at in ((low, 0), (high, 16))]
        return lw.dst(i.args[0], bx.or_(*words))
    p = compare(lw, *(lw.src(a, kind) for a in i.args[1:3]), i.parts[1], kind, "ftz" in i.parts)
    p = with_third(lw, i, p)
    if dtype == "f32":
        return lw.dst(i.args[0], bx.select(p, constant(F32, 1.0), constant(F32, 0.0)))
    if width(kind_type(dtype)) == 16:
        return lw.dst(i.args[0], bx.select(p, constant(I16, ones), constant(I16, 0)))
    return lw.dst(i.args[0], bx.cast("sext", p, I32))


@op("selp", "b16 b32 b64 s16 u16 s32 u32 s64 u64 f32 f64 pred")
def selp(lw, i):
    kind = kind_of(i)
    x, y = (lw.src(a, kind) for a in i.args[1:3])
    lw.dst(i.args[0], lw.bx.select(lw.src(i.args[3], "pred"), x, y))


@op("slct", "b16 b32 b64 s16 u16 s32 u32 s64 u64 f32 f64", "ftz")
def slct(lw, i):
    kind, ckind = i.parts[-2], i.parts[-1]
    x, y = (lw.src(a, kind) for a in i.args[1:3])
    c = lw.src(i.args[3], ckind)
    if "ftz" in i.parts:
        from .ops_float import flush

        c = flush(lw, c)
    zero = lw.bx.const(c, 0)
    p = lw.bx.fcmp(">=", c, zero) if ckind == "f32" else lw.bx.icmp(">=", c, zero, True)
    lw.dst(i.args[0], lw.bx.select(p, x, y))
