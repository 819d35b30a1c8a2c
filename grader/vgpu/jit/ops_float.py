"""Floating-point arithmetic (PTX ISA: "Floating Point Instructions", "Half Precision Floating Point Instructions").

Results are IEEE 754 with one rounding, in the rounding that the opcode names: arithmetic takes the processor's own
(directed.py), conversions error-free transformations (Dekker 1971, Knuth TAOCP 4.2.2). The .approx functions are
evaluated in double precision and rounded once, which lies inside the error bounds of the manual and is the same on
every machine.
"""

import math

from llvmlite import ir

from .directed import directed
from .table import op
from .values import F32, F64, HALF, I16, I32, I64, constant, elem, is_vec, width

HALVES = {"f16", "bf16"}
PAIRS = {"f16x2": "f16", "bf16x2": "bf16"}


def kind_of(i) -> str:
    return i.parts[-1]


def rounding(i) -> str:
    for r in ("rz", "rm", "rp"):
        if r in i.parts:
            return r
    return "rn"


# ---------------------------------------------------------------- bit views
def as_int(lw, x):
    return lw.bx.cast("bitcast", x, ir.IntType(width(elem(x))))


def as_float(lw, x):
    return lw.bx.cast("bitcast", x, F32 if elem(x).width == 32 else F64)


def fabs(lw, x):
    return lw.bx.call("llvm.fabs", x)


def flush(lw, x):
    """.ftz: subnormals to zero of the same sign."""
    bx, t = lw.bx, ir.IntType(width(elem(x)))
    bits = as_int(lw, x)
    exponent, sign = (0x7F800000, 1 << 31) if t.width == 32 else (0x7FF << 52, 1 << 63)
    tiny = bx.icmp("==", bx.and_(bits, constant(t, exponent)), constant(t, 0))
    return as_float(lw, bx.select(tiny, bx.and_(bits, constant(t, sign)), bits))


def flush_half(lw, bits):
    """The same for the bits of an fp16."""
    bx = lw.bx
    tiny = bx.icmp("==", bx.and_(bits, constant(I16, 0x7C00)), constant(I16, 0))
    return bx.select(tiny, bx.and_(bits, constant(I16, 0x8000)), bits)


def saturate(lw, x):
    """.sat: clamp to [0, 1]; NaN gives +0."""
    bx = lw.bx
    zero, one = bx.const(x, 0.0), bx.const(x, 1.0)
    x = bx.select(bx.fcmp(">", x, zero), x, zero)
    return bx.select(bx.fcmp("<", x, one), x, one)


def relu(lw, x):
    """.relu: negative numbers to +0; NaN stays."""
    zero = lw.bx.const(x, 0.0)
    return lw.bx.select(lw.bx.fcmp("<=", x, zero), zero, x)


def finish(lw, i, x):
    if "sat" in i.parts:
        x = saturate(lw, x)
    if "ftz" in i.parts:
        x = flush(lw, x)
    lw.dst(i.args[0], x)


def operands(lw, i, kind=None):
    kind = kind or kind_of(i)
    values = [lw.src(a, kind) for a in i.args[1:]]
    return [flush(lw, v) for v in values] if "ftz" in i.parts else values


# ---------------------------------------------------------------- fp16 and bf16
def widen(lw, x, kind):
    """A half's bits to f32, exactly; f32 and f64 as they are."""
    bx = lw.bx
    if kind == "f16":
        return bx.cast("fpext", bx.cast("bitcast", x, HALF), F32)
    if kind == "bf16":
        return as_float(lw, bx.shl(bx.cast("zext", x, I32), constant(I32, 16)))
    return x


def narrow(lw, x, kind, mode="rn"):
    """f32 to the bits of a half, with one rounding."""
    bx = lw.bx
    if kind == "f16":
        if mode == "rn":
            return bx.cast("bitcast", bx.cast("fptrunc", x, HALF), I16)
        half = bx.cast("fptrunc", x, HALF)
        back = bx.cast("fpext", half, F32)
        bits = bx.cast("bitcast", half, I16)
        return step(lw, bits, bx.fsub(x, back), mode)
    bits = as_int(lw, x)
    high = bx.cast("trunc", bx.lshr(bits, constant(I32, 16)), I16)
    nan = bx.fcmp("uno", x, x, ordered=False)
    if mode == "rn":
        odd = bx.and_(bx.lshr(bits, constant(I32, 16)), constant(I32, 1))
        rounded = bx.add(bits, bx.add(odd, constant(I32, 0x7FFF)))
        value = bx.cast("trunc", bx.lshr(rounded, constant(I32, 16)), I16)
    else:
        back = as_float(lw, bx.and_(bits, constant(I32, 0xFFFF0000)))
        value = step(lw, high, bx.fsub(x, back), mode)
    return bx.select(nan, constant(I16, 0x7FFF), value)


def to_odd(lw, x):
    """f64 to f32 rounded to odd, so that a second rounding to a half is right (Boldo and Melquiond 2008)."""
    bx = lw.bx
    near = bx.cast("fptrunc", x, F32)
    rest = bx.fsub(x, bx.cast("fpext", near, F64))
    toward = step(lw, as_int(lw, near), rest, "rz")
    inexact = bx.fcmp("!=", rest, bx.const(rest, 0.0))
    odd = bx.or_(toward, constant(I32, 1))
    return as_float(lw, bx.select(inexact, odd, as_int(lw, near)))


# ---------------------------------------------------------------- directed rounding
def step(lw, bits, rest, mode):
    """Move the float whose bits are given, the value nearest to `exact`, to its neighbour if `mode` asks for it.

    rest has the sign of exact - value, and is zero when the value is exact.
    """
    bx, t = lw.bx, elem(bits)
    zero = bx.const(rest, 0.0)
    top = constant(t, 1 << (t.width - 1))
    negative = bx.icmp("!=", bx.and_(bits, top), constant(t, 0))
    is_zero = bx.icmp("==", bx.and_(bits, bx.not_(bx.splat(top) if is_vec(bits) else top)), constant(t, 0))
    one = constant(t, 1)
    up = bx.select(negative, bx.sub(bits, one), bx.add(bits, one))
    up = bx.select(is_zero, one, up)
    down = bx.select(negative, bx.add(bits, one), bx.sub(bits, one))
    down = bx.select(is_zero, bx.or_(top, one), down)
    below, above = bx.fcmp("<", rest, zero), bx.fcmp(">", rest, zero)
    if mode == "rm":
        return bx.select(below, down, bits)
    if mode == "rp":
        return bx.select(above, up, bits)
    inward = bx.select(negative, bx.and_(above, bx.not_(is_zero)), bx.and_(below, bx.not_(is_zero)))
    return bx.select(inward, bx.sub(bits, one), bits)


def two_sum(lw, a, b):
    bx = lw.bx
    s = bx.fadd(a, b)
    bb = bx.fsub(s, a)
    return s, bx.fadd(bx.fsub(a, bx.fsub(s, bb)), bx.fsub(b, bb))


def round_sum(lw, s, e, mode):
    """The f32 that s + e (f64, |e| far below |s|) rounds to."""
    bx = lw.bx
    near = bx.cast("fptrunc", s, F32)
    d = bx.fsub(s, bx.cast("fpext", near, F64))
    if mode == "rn":  # ties of s that e decides, and s that is itself rounded
        return bx.cast("fptrunc", odd_double(lw, s, e), F32)
    rest = bx.select(bx.fcmp("==", d, bx.const(d, 0.0)), e, d)
    moved = step(lw, as_int(lw, near), rest, mode)
    nan = bx.fcmp("uno", s, s, ordered=False)
    inf = bx.fcmp("==", fabs(lw, s), bx.const(s, math.inf))
    return as_float(lw, bx.select(bx.or_(nan, inf), as_int(lw, near), moved))


def odd_double(lw, s, e):
    """s + e rounded to odd in f64."""
    bx = lw.bx
    bits = as_int(lw, s)
    inexact = bx.and_(bx.fcmp("!=", e, bx.const(e, 0.0)), bx.fcmp("<", fabs(lw, s), bx.const(s, math.inf)))
    even = bx.icmp("==", bx.and_(bits, constant(I64, 1)), constant(I64, 0))
    outward = bx.icmp("==", as_sign(lw, s), as_sign(lw, e))
    moved = bx.select(outward, bx.add(bits, constant(I64, 1)), bx.sub(bits, constant(I64, 1)))
    return as_float(lw, bx.select(bx.and_(inexact, even), moved, bits))


def as_sign(lw, x):
    return lw.bx.lshr(as_int(lw, x), constant(ir.IntType(width(elem(x))), width(elem(x)) - 1))


def directed64(lw, value, rest, mode):
    bx = lw.bx
    finite = bx.fcmp("<", fabs(lw, value), bx.const(value, math.inf))
    return as_float(lw, bx.select(finite, step(lw, as_int(lw, value), rest, mode), as_int(lw, value)))


# ---------------------------------------------------------------- add, sub, mul, fma
def rounded(lw, name, values, mode):
    """fadd, fmul, fdiv, fma or sqrt, rounded once."""
    if mode != "rn":
        return directed(lw, name, values, mode)
    if name in ("fma", "sqrt"):
        return lw.bx.call(f"llvm.{name}", *values)
    return lw.bx.bin(name, *values)


def half_op(lw, i, compute):
    """Apply compute (f32 values -> f32 or f64) to halves or pairs of halves."""
    bx, kind = lw.bx, kind_of(i)
    values = [lw.src(a, kind) for a in i.args[1:]]
    ftz = "ftz" in i.parts and kind in ("f16", "f16x2")

    def one(xs, k):
        r = compute(*(widen(lw, flush_half(lw, x) if ftz else x, k) for x in xs))
        r = to_odd(lw, r) if elem(r) == F64 else r
        if "sat" in i.parts:
            r = saturate(lw, r)
        if "relu" in i.parts:
            r = relu(lw, r)
        r = narrow(lw, r, k)
        return flush_half(lw, r) if ftz else r

    if kind in PAIRS:
        k = PAIRS[kind]
        low = one([bx.cast("trunc", v, I16) for v in values], k)
        high = one([bx.cast("trunc", bx.lshr(v, constant(I32, 16)), I16) for v in values], k)
        return lw.dst(i.args[0], join(lw, low, high))
    return lw.dst(i.args[0], one(values, kind))


def join(lw, low, high):
    """Two 16-bit values as one of 32 bits."""
    bx = lw.bx
    return bx.or_(bx.cast("zext", low, I32), bx.shl(bx.cast("zext", high, I32), constant(I32, 16)))


def is_half(i) -> bool:
    return kind_of(i) in HALVES or kind_of(i) in PAIRS


def float_add(lw, i):
    if is_half(i):
        return half_op(lw, i, lambda x, y: lw.bx.fadd(x, y))
    return finish(lw, i, rounded(lw, "fadd", operands(lw, i), rounding(i)))


def float_sub(lw, i):
    if is_half(i):
        return half_op(lw, i, lambda x, y: lw.bx.fsub(x, y))
    x, y = operands(lw, i)
    return finish(lw, i, rounded(lw, "fadd", [x, lw.bx.fneg(y)], rounding(i)))


def float_mul(lw, i):
    bx = lw.bx
    if is_half(i):
        return half_op(lw, i, lambda x, y: bx.fmul(bx.cast("fpext", x, F64), bx.cast("fpext", y, F64)))
    return finish(lw, i, rounded(lw, "fmul", operands(lw, i), rounding(i)))


@op("fma", "f32 f64 f16 f16x2 bf16 bf16x2", "rn rz rm rp ftz sat relu")
def fma(lw, i):
    bx = lw.bx
    if is_half(i):

        def exact(x, y, z):
            x, y, z = (bx.cast("fpext", v, F64) for v in (x, y, z))
            return odd_double(lw, *two_sum(lw, bx.fmul(x, y), z))

        return half_op(lw, i, exact)
    return finish(lw, i, rounded(lw, "fma", operands(lw, i), rounding(i)))


# ---------------------------------------------------------------- divide, roots
def float_div(lw, i):
    bx = lw.bx
    x, y = operands(lw, i)
    value = rounded(lw, "fdiv", [x, y], rounding(i))
    if "approx" in i.parts:  # PTX ISA, div: above 2**126 the reciprocal of the divisor has underflowed
        big = bx.fcmp(">", fabs(lw, y), bx.const(y, 2.0**126))
        big = bx.and_(big, bx.fcmp("<", fabs(lw, value), bx.const(value, math.inf)))
        value = bx.select(big, bx.fmul(value, bx.const(value, 0.0)), value)
    return finish(lw, i, value)


@op("rcp", "f32 f64", "approx rn rz rm rp ftz")
def rcp(lw, i):
    (y,) = operands(lw, i)
    finish(lw, i, rounded(lw, "fdiv", [lw.bx.const(y, 1.0), y], rounding(i)))


@op("sqrt", "f32 f64", "approx rn rz rm rp ftz")
def sqrt(lw, i):
    finish(lw, i, rounded(lw, "sqrt", operands(lw, i), rounding(i)))


@op("rsqrt", "f32 f64", "approx ftz")
def rsqrt(lw, i):
    bx = lw.bx
    (x,) = operands(lw, i)
    t = elem(x)
    x = bx.cast("fpext", x, F64)
    finish(lw, i, bx.cast("fptrunc", bx.fdiv(bx.const(x, 1.0), bx.call("llvm.sqrt", x)), t))


# ---------------------------------------------------------------- sign, order, class
def half_sign(lw, i, change):
    """abs or neg of halves, by their bits."""
    x = lw.src(i.args[1], kind_of(i))
    if kind_of(i) == "f16x2" and "ftz" in i.parts:
        low, high = (lw.bx.cast("trunc", v, I16) for v in (x, lw.bx.lshr(x, constant(I32, 16))))
        x = join(lw, flush_half(lw, low), flush_half(lw, high))
    elif kind_of(i) == "f16" and "ftz" in i.parts:
        x = flush_half(lw, x)
    return lw.dst(i.args[0], change(x, elem(x), 0x80008000 if elem(x) == I32 else 0x8000))


def float_abs(lw, i):
    if is_half(i):
        return half_sign(lw, i, lambda x, t, signs: lw.bx.and_(x, constant(t, ~signs)))
    (x,) = operands(lw, i)
    return finish(lw, i, fabs(lw, x))


def float_neg(lw, i):
    if is_half(i):
        return half_sign(lw, i, lambda x, t, signs: lw.bx.xor(x, constant(t, signs)))
    (x,) = operands(lw, i)
    return finish(lw, i, lw.bx.fneg(x))


def pick(lw, x, y, smaller, nan):
    """minimum or maximum: a NaN operand gives the other one (or NaN with .NaN); -0 is below +0."""
    bx = lw.bx
    x, y = bx.same(x, y)
    first = bx.fcmp("<", x, y) if smaller else bx.fcmp(">", x, y)
    value = bx.select(first, x, y)
    bits = bx.or_(as_int(lw, x), as_int(lw, y)) if smaller else bx.and_(as_int(lw, x), as_int(lw, y))
    value = bx.select(bx.fcmp("==", x, y), as_float(lw, bits), value)
    xnan, ynan = bx.fcmp("uno", x, x, ordered=False), bx.fcmp("uno", y, y, ordered=False)
    if nan:
        quiet = bx.const(x, math.nan)
        return bx.select(bx.or_(xnan, ynan), quiet, value)
    value = bx.select(xnan, y, value)
    value = bx.select(ynan, x, value)
    canonical = as_float(lw, bx.const(as_int(lw, x), 0x7FFFFFFF if elem(x) == F32 else 0x7FF8000000000000))
    return bx.select(bx.and_(xnan, ynan), canonical, value)


def float_minmax(lw, i):
    bx, smaller, nan = lw.bx, i.parts[0] == "min", "NaN" in i.parts

    def compute(x, y):
        if "xorsign" not in i.parts:
            return pick(lw, x, y, smaller, nan)
        sign = bx.xor(as_int(lw, x), as_int(lw, y))
        sign = bx.and_(sign, bx.const(sign, 1 << (elem(sign).width - 1)))
        return as_float(lw, bx.or_(as_int(lw, pick(lw, fabs(lw, x), fabs(lw, y), smaller, nan)), sign))

    if is_half(i):
        return half_op(lw, i, compute)
    value, *others = operands(lw, i)
    for other in others:
        value = compute(value, other)
    return finish(lw, i, value)


@op("copysign", "f32 f64")
def copysign(lw, i):
    """copysign d, a, b: b with the sign of a."""
    bx = lw.bx
    a, b = (as_int(lw, lw.src(x, kind_of(i))) for x in i.args[1:3])
    t = elem(a)
    top = constant(t, 1 << (t.width - 1))
    rest = constant(t, (1 << (t.width - 1)) - 1)
    lw.dst(i.args[0], as_float(lw, bx.or_(bx.and_(a, top), bx.and_(b, rest))))


@op("testp", "f32 f64", "finite infinite number notanumber normal subnormal")
def testp(lw, i):
    bx = lw.bx
    x = lw.src(i.args[1], kind_of(i))
    a, inf = fabs(lw, x), bx.const(x, math.inf)
    least = bx.const(x, 2.0**-126 if elem(x) == F32 else 2.0**-1022)
    finite, nonzero = bx.fcmp("<", a, inf), bx.fcmp(">", a, bx.const(x, 0.0))
    tests = {
        "finite": lambda: finite,
        "infinite": lambda: bx.fcmp("==", a, inf),
        "number": lambda: bx.fcmp("ord", x, x),
        "notanumber": lambda: bx.fcmp("uno", x, x, ordered=False),
        "normal": lambda: bx.and_(finite, bx.fcmp(">=", a, least)),
        "subnormal": lambda: bx.and_(nonzero, bx.fcmp("<", a, least)),
    }
    lw.dst(i.args[0], tests[i.parts[1]]())


# ---------------------------------------------------------------- approximate functions
def polynomial(lw, x, coefficients):
    """Horner with fma; highest power first."""
    value = lw.bx.const(x, coefficients[0])
    for c in coefficients[1:]:
        value = lw.bx.call("llvm.fma", value, x, lw.bx.const(x, c))
    return value


def exp2_double(lw, x):
    """2**x for f64 in [-1000, 1000]; relative error below 1e-13 (Taylor series of degree 11 on [-1/2, 1/2])."""
    bx = lw.bx
    lo, hi = bx.const(x, -1000.0), bx.const(x, 1000.0)
    nan = bx.fcmp("uno", x, x, ordered=False)
    y = bx.select(bx.fcmp(">", x, lo), x, lo)
    y = bx.select(bx.fcmp("<", y, hi), y, hi)
    n = bx.call("llvm.roundeven", y)
    f = bx.fsub(y, n)
    series = [math.log(2.0) ** k / math.factorial(k) for k in range(11, -1, -1)]
    value = polynomial(lw, f, series)
    power = bx.shl(bx.add(bx.cast("fptosi", n, I64), constant(I64, 1023)), constant(I64, 52))
    return bx.select(nan, x, bx.fmul(value, as_float(lw, power)))


def log2_double(lw, x):
    """log2 of an f64 that came from f32; absolute error below 1e-14 (atanh series)."""
    bx = lw.bx
    bits = as_int(lw, x)
    e = bx.sub(bx.and_(bx.lshr(bits, constant(I64, 52)), constant(I64, 0x7FF)), constant(I64, 1023))
    m = as_float(lw, bx.or_(bx.and_(bits, constant(I64, (1 << 52) - 1)), constant(I64, 1023 << 52)))
    big = bx.fcmp(">", m, bx.const(m, math.sqrt(2.0)))
    m = bx.select(big, bx.fmul(m, bx.const(m, 0.5)), m)
    e = bx.select(big, bx.add(e, constant(I64, 1)), e)
    t = bx.fdiv(bx.fsub(m, bx.const(m, 1.0)), bx.fadd(m, bx.const(m, 1.0)))
    series = [2.0 / math.log(2.0) / k for k in range(19, 0, -2)]
    value = bx.fmul(t, polynomial(lw, bx.fmul(t, t), series))
    value = bx.fadd(value, bx.cast("sitofp", e, F64))
    zero = bx.const(x, 0.0)
    value = bx.select(bx.fcmp("==", x, zero), bx.const(x, -math.inf), value)
    value = bx.select(bx.fcmp("==", x, bx.const(x, math.inf)), x, value)
    bad = bx.fcmp("<", x, zero, ordered=False)
    return bx.select(bad, bx.const(x, math.nan), value)


def sine(lw, x, quarter):
    """sin(x + quarter * pi/2) of an f64 that came from f32, to 1e-13 for |x| < 1e5."""
    bx = lw.bx
    inf = bx.fcmp("==", fabs(lw, x), bx.const(x, math.inf))
    k = bx.call("llvm.roundeven", bx.fmul(x, bx.const(x, 2.0 / math.pi)))
    high, low = math.pi / 2, 6.123233995736766e-17
    r = bx.call("llvm.fma", k, bx.const(x, -high), x)
    r = bx.call("llvm.fma", k, bx.const(x, -low), r)
    r = bx.select(bx.fcmp("<", fabs(lw, r), bx.const(r, 1.0)), r, bx.const(r, 0.0))  # beyond 2**50 no reduction is left
    whole = bx.fcmp("<", fabs(lw, k), bx.const(k, 2.0**62))
    n = bx.cast("fptosi", bx.select(whole, k, bx.const(k, 0.0)), I64)
    n = bx.add(n, constant(I64, quarter))
    r2 = bx.fmul(r, r)
    s = bx.fmul(r, polynomial(lw, r2, [(-1.0) ** j / math.factorial(2 * j + 1) for j in range(8, -1, -1)]))
    c = polynomial(lw, r2, [(-1.0) ** j / math.factorial(2 * j) for j in range(8, -1, -1)])
    odd = bx.icmp("!=", bx.and_(n, constant(I64, 1)), constant(I64, 0))
    value = bx.select(odd, c, s)
    minus = bx.icmp("!=", bx.and_(n, constant(I64, 2)), constant(I64, 0))
    value = bx.select(minus, bx.fneg(value), value)
    if quarter == 0:
        value = bx.select(bx.fcmp("==", x, bx.const(x, 0.0)), x, value)  # keeps the sign of zero
    return bx.select(bx.or_(inf, bx.fcmp("uno", x, x, ordered=False)), bx.const(x, math.nan), value)


def tanh_double(lw, x):
    bx = lw.bx
    e = exp2_double(lw, bx.fmul(x, bx.const(x, 2.0 / math.log(2.0))))
    value = bx.fsub(bx.const(x, 1.0), bx.fdiv(bx.const(x, 2.0), bx.fadd(e, bx.const(x, 1.0))))
    small = bx.fmul(x, polynomial(lw, bx.fmul(x, x), [2.0 / 15.0, -1.0 / 3.0, 1.0]))
    return bx.select(bx.fcmp("<", fabs(lw, x), bx.const(x, 2.0**-6)), small, value)


@op("ex2 lg2 sin cos tanh", "f32 f16 f16x2 bf16 bf16x2", "approx ftz")
def approximate(lw, i):
    bx = lw.bx
    fn = {
        "ex2": lambda x: exp2_double(lw, x),
        "lg2": lambda x: log2_double(lw, x),
        "sin": lambda x: sine(lw, x, 0),
        "cos": lambda x: sine(lw, x, 1),
        "tanh": lambda x: tanh_double(lw, x),
    }[i.parts[0]]
    if is_half(i):
        return half_op(lw, i, lambda x: fn(bx.cast("fpext", x, F64)))
    (x,) = operands(lw, i)
    return finish(lw, i, bx.cast("fptrunc", fn(bx.cast("fpext", x, F64)), F32))
