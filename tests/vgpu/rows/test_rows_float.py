"""f32 and f64 arithmetic in every rounding, against exact fractions; comparisons; sign and order operations."""

import math

import pytest
from exact import NAN, arithmetic, decode, edges, flushed
from harness import Nan, Row, close, f32, f32_value, f64, mix, run_rows

MODES = ("rn", "rz", "rm", "rp")
BITS = {"f32": 32, "f64": 64}


def tricky_pairs(kind):
    """Operands whose sums, products or quotients are ties, beside ties, subnormal, or at the overflow limit."""
    f = f32 if kind == "f32" else f64
    p = 24 if kind == "f32" else 53
    tiny, huge = (2.0**-149, 2.0**127) if kind == "f32" else (2.0**-1074, 2.0**1023)
    top = huge * (2 - 2.0 ** (1 - p))
    pairs = [(1.0, 2.0**-p), (1.0, 2.0**-p * (1 + 2.0**-20)), (1 + 2.0 ** (1 - p), 2.0**-p), (1.0, -(2.0 ** -(p + 1)))]
    pairs += [
        (top, huge * 2.0**-p),
        (top, huge * 2.0 ** -(p + 1)),
        (top, top),
        (-top, -top),
        (top, tiny),
        (1.0, tiny),
        (-1.0, tiny),
    ]
    pairs += [(tiny, 0.5), (tiny, 0.75), (3 * tiny, 0.5), (tiny, tiny), (tiny * 2 ** (p - 1), 1 - 2.0**-p), (1.5, tiny)]
    pairs += [
        (huge, 2.0),
        (huge, 1 + 2.0 ** (1 - p)),
        (1.0, 3.0),
        (2.0, 3.0),
        (1.0, huge),
        (1.0, top),
        (tiny, top),
        (top, tiny),
    ]
    pairs += [
        (1.0, -1.0),
        (0.0, -0.0),
        (-0.0, -0.0),
        (tiny, -tiny),
        (tiny * 2 ** (p - 1), -tiny * (2 ** (p - 1) - 1)),
        (7.0, 7.0),
    ]
    bits = [(f(x), f(y)) for x, y in pairs]
    sign = 1 << (BITS[kind] - 1)
    return bits + [(y, x) for x, y in bits] + [(x ^ sign, y) for x, y in bits]


def pairs(kind, limit=260):
    return tricky_pairs(kind) + mix(edges(kind), edges(kind), limit=limit)


def triples(kind, limit=260):
    f, sign = (f32, 1 << 31) if kind == "f32" else (f64, 1 << 63)
    p = 24 if kind == "f32" else 53
    tiny = 2.0**-149 if kind == "f32" else 2.0**-1074
    x = 1 + 2.0 ** (1 - p)
    out = [
        (f(x), f(x), f(-1.0)),
        (f(x), f(x), f(-(1 + 2.0 ** (2 - p)))),
        (f(x), f(1 - 2.0**-p), f(-1.0)),
        (f(2.0), f(3.0), f(-6.0)),
    ]
    out += [
        (f(tiny), f(0.75), f(-tiny)),
        (f(tiny), f(0.5), f(0.0)),
        (f(tiny), f(tiny), f(1.0)),
        (f(-tiny), f(tiny), f(1.0)),
    ]
    out += [
        (f(1.0), f(1.0), f(2.0**-p)),
        (f(1.0), f(1.0), f(2.0 ** -(p + 30))),
        (f(1.0), f(1.0), f(-(2.0 ** -(p + 30)))),
    ]
    out += [
        (f(-0.0), f(1.0), f(-0.0)),
        (f(0.0), f(1.0), f(-0.0)),
        (f(tiny), f(tiny), f(0.0)),
        (f(tiny), f(-tiny), f(0.0)),
    ]
    out += [(a, b, c ^ sign) for a, b in tricky_pairs(kind)[::5] for c in (a, b)]
    return out + mix(edges(kind), edges(kind), edges(kind), limit=limit)


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("mode", MODES)
def test_arithmetic_rounds_once(kind, mode):
    two, three, one = f"{kind} {kind}", f"{kind} {kind} {kind}", [(b,) for b in edges(kind, extra=60)]
    roots = one + [
        (f(x),)
        for f in (f32 if kind == "f32" else f64,)
        for x in (2.0, 3.0, 4.0, 9.0, 2.0**-126, 2.0**-140, 1 + 2.0**-23)
    ]
    rows = [
        Row(f"{op}.{mode}.{kind} $d, $a, $b;", kind, two, pairs(kind), arithmetic(op, kind, mode))
        for op in ("add", "sub", "mul", "div")
    ]
    rows.append(Row(f"fma.{mode}.{kind} $d, $a, $b, $c;", kind, three, triples(kind), arithmetic("fma", kind, mode)))
    rows.append(Row(f"rcp.{mode}.{kind} $d, $a;", kind, kind, one, arithmetic("rcp", kind, mode)))
    rows.append(Row(f"sqrt.{mode}.{kind} $d, $a;", kind, kind, roots, arithmetic("sqrt", kind, mode)))
    run_rows(rows)


def test_unnamed_rounding_is_to_nearest():
    rows = []
    for kind in ("f32", "f64"):
        two = f"{kind} {kind}"
        rows += [
            Row(f"{op}.{kind} $d, $a, $b;", kind, two, pairs(kind, 100), arithmetic(op, kind))
            for op in ("add", "sub", "mul")
        ]
    rows.append(Row("mad.rn.f32 $d, $a, $b, $c;", "f32", "f32 f32 f32", triples("f32", 100), arithmetic("fma", "f32")))
    rows.append(
        Row("mad.rz.f64 $d, $a, $b, $c;", "f64", "f64 f64 f64", triples("f64", 100), arithmetic("fma", "f64", "rz"))
    )
    run_rows(rows)


@pytest.mark.parametrize("mode", MODES)
def test_flush_to_zero_and_saturation(mode):
    """.ftz takes subnormal operands and results for zeros of their sign; .sat clamps to [0, 1] and makes NaN +0."""
    rows = []
    for ftz, sat in ((True, False), (False, True), (True, True)):
        suffix = f"{mode}{'.ftz' if ftz else ''}{'.sat' if sat else ''}.f32"
        options = {"mode": mode, "ftz": ftz, "sat": sat}
        for op in ("add", "sub", "mul"):
            rows.append(
                Row(f"{op}.{suffix} $d, $a, $b;", "f32", "f32 f32", pairs("f32", 120), arithmetic(op, "f32", **options))
            )
        rows.append(
            Row(
                f"fma.{suffix} $d, $a, $b, $c;",
                "f32",
                "f32 f32 f32",
                triples("f32", 120),
                arithmetic("fma", "f32", **options),
            )
        )
    one = [(b,) for b in edges("f32")]
    rows.append(
        Row(
            f"div.{mode}.ftz.f32 $d, $a, $b;",
            "f32",
            "f32 f32",
            pairs("f32", 120),
            arithmetic("div", "f32", mode, ftz=True),
        )
    )
    rows.append(Row(f"rcp.{mode}.ftz.f32 $d, $a;", "f32", "f32", one, arithmetic("rcp", "f32", mode, ftz=True)))
    rows.append(Row(f"sqrt.{mode}.ftz.f32 $d, $a;", "f32", "f32", one, arithmetic("sqrt", "f32", mode, ftz=True)))
    run_rows(rows)


# ---------------------------------------------------------------- sign, order, class
def order(name, kind, *, ftz=False, nan=False, xorsign=False):
    """min or max: the operand that is a number; -0 below +0; with .NaN a NaN operand wins."""

    def want(*operands):
        if ftz:
            operands = [flushed(o, kind) for o in operands]
        top = 1 << (BITS.get(kind, 16) - 1)
        if xorsign:
            sign = (operands[0] ^ operands[1]) & top
            operands = [o & (top - 1) for o in operands]
        values = [decode(o, kind) for o in operands]
        numbers = [o for o, v in zip(operands, values, strict=True) if v.what != NAN]
        if not numbers or (nan and len(numbers) < len(values)):
            return Nan(kind)
        numbers.sort(key=lambda o: -(o & (top - 1)) - 1 if o & top else o)
        chosen = numbers[0] if name == "min" else numbers[-1]
        return chosen | sign if xorsign else chosen

    return want


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_min_max(kind):
    rows = []
    few = list(edges(kind, extra=4))
    for op in ("min", "max"):
        cases = mix(few, few, limit=500)
        rows.append(Row(f"{op}.{kind} $d, $a, $b;", kind, f"{kind} {kind}", cases, order(op, kind)))
        if kind == "f32":
            rows.append(Row(f"{op}.ftz.f32 $d, $a, $b;", kind, "f32 f32", cases, order(op, kind, ftz=True)))
            rows.append(Row(f"{op}.NaN.f32 $d, $a, $b;", kind, "f32 f32", cases, order(op, kind, nan=True)))
            rows.append(
                Row(f"{op}.ftz.NaN.f32 $d, $a, $b;", kind, "f32 f32", cases, order(op, kind, ftz=True, nan=True))
            )
            rows.append(Row(f"{op}.xorsign.abs.f32 $d, $a, $b;", kind, "f32 f32", cases, order(op, kind, xorsign=True)))
    run_rows(rows)


def test_sign_operations():
    rows = []
    for kind in ("f32", "f64"):
        top = 1 << (BITS[kind] - 1)
        one = [(b,) for b in edges(kind) if decode(b, kind).what != NAN]
        rows.append(Row(f"abs.{kind} $d, $a;", kind, kind, one, lambda a, top=top: a & (top - 1)))
        rows.append(Row(f"neg.{kind} $d, $a;", kind, kind, one, lambda a, top=top: a ^ top))
        two = mix(edges(kind, extra=3), edges(kind, extra=3))
        rows.append(  # the sign of the first operand, the rest of the second
            Row(
                f"copysign.{kind} $d, $a, $b;",
                kind,
                f"{kind} {kind}",
                two,
                lambda a, b, top=top: (a & top) | (b & (top - 1)),
            )
        )
    one = [(b,) for b in edges("f32") if decode(b, "f32").what != NAN]
    rows.append(Row("abs.ftz.f32 $d, $a;", "f32", "f32", one, lambda a: flushed(a, "f32") & 0x7FFFFFFF))
    rows.append(Row("neg.ftz.f32 $d, $a;", "f32", "f32", one, lambda a: flushed(a, "f32") ^ 0x80000000))
    run_rows(rows)


def test_testp():
    rows = []
    for kind, big, least in (("f32", 0x7F800000, 0x800000), ("f64", 0x7FF << 52, 1 << 52)):
        tests = {
            "finite": lambda a, b, n: a < b,
            "infinite": lambda a, b, n: a == b,
            "number": lambda a, b, n: a <= b,
            "notanumber": lambda a, b, n: a > b,
            "normal": lambda a, b, n: n <= a < b,
            "subnormal": lambda a, b, n: 0 < a < n,
        }
        top = 1 << (BITS[kind] - 1)
        for name, fn in tests.items():
            one = [(b,) for b in edges(kind)]
            rows.append(
                Row(
                    f"testp.{name}.{kind} $d, $a;",
                    "pred",
                    kind,
                    one,
                    lambda a, f=fn, t=top, b=big, n=least: int(f(a & (t - 1), b, n)),
                )
            )
    run_rows(rows)


# ---------------------------------------------------------------- approximations, within the manual's bounds
def approximate(name, ftz):
    def want(a, b=None):
        if ftz:
            a, b = flushed(a, "f32"), None if b is None else flushed(b, "f32")
        x = f32_value(a)
        y = None if b is None else f32_value(b)
        if math.isnan(x) or (y is not None and math.isnan(y)):
            return Nan("f32")
        with_bound = bound(name, x, y)
        if with_bound is None:
            return Nan("f32")
        exact, limits = with_bound
        if abs(exact) >= 2.0**128:
            exact = math.copysign(math.inf, exact)
        check = close("f32", exact, **limits) if limits else (lambda got: f32_value(got) == exact)
        if math.isfinite(exact) and 0 < abs(exact) < 2.0**-126:  # subnormal: flushed, or rounded to the grid
            if ftz:
                return lambda got: got & 0x7FFFFFFF in (0, 0x800000)
            return lambda got: abs(f32_value(got) - exact) <= 2.0**-149
        if exact == 0:
            return lambda got: got == f32(exact)
        return check

    return want


def bound(name, x, y):
    """(exact value, allowed error) or None for NaN; PTX ISA, "Floating Point Instructions"."""
    ulp2 = {"relative": 2.0**-22}
    if name in ("div", "full"):
        if y == 0 or math.isinf(x) or math.isinf(y):
            if (x == 0 and y == 0) or (math.isinf(x) and math.isinf(y)):
                return None
            sign = math.copysign(1, x) * math.copysign(1, y)
            return (math.copysign(0.0 if math.isinf(y) else math.inf, sign), {})
        if name == "div" and abs(y) > 2.0**126:
            return (math.copysign(0.0, math.copysign(1, x) * math.copysign(1, y)), {})
        return (x / y, ulp2)
    if name == "rcp":
        return (math.copysign(math.inf, x), {}) if x == 0 else (1 / x, {"relative": 2.0**-23})
    if name in ("sqrt", "rsqrt", "lg2") and x < 0:
        return None
    if name == "sqrt":
        return (math.sqrt(x), {"relative": 2.0**-23})
    if name == "rsqrt":
        return (math.copysign(math.inf, x), {}) if x == 0 else (x**-0.5, {"relative": 2.0**-22.9})
    if name == "lg2":
        if x == 0:
            return (-math.inf, {})
        return (math.log2(x), {"absolute": 2.0**-22} if 0.5 < x < 2 else {"relative": 2.0**-22})
    if name == "ex2":
        return (2.0**x if x < 1000 else math.inf, ulp2)
    if name == "tanh":
        return (math.tanh(x), {"relative": 2.0**-11})
    if math.isinf(x):
        return None
    absolute = 2.0**-20.5 if abs(x) <= 2 * math.pi else 2.0**-14.7 if abs(x) <= 100 * math.pi else 2.0
    return ((math.sin if name == "sin" else math.cos)(x), {"absolute": absolute})


def test_approximations_stay_within_the_manuals_bounds():
    one = [(b,) for b in edges("f32", extra=40)]
    one += [(f32(x),) for k in range(60) for x in (0.13 * k, -0.61 * k, 2.0**k / 3, 2.0**-k * 1.7)]
    rows = []
    for ftz in ("", ".ftz"):
        for name in ("rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2"):
            rows.append(Row(f"{name}.approx{ftz}.f32 $d, $a;", "f32", "f32", one, approximate(name, bool(ftz))))
        rows.append(
            Row(f"div.approx{ftz}.f32 $d, $a, $b;", "f32", "f32 f32", pairs("f32"), approximate("div", bool(ftz)))
        )
        rows.append(
            Row(f"div.full{ftz}.f32 $d, $a, $b;", "f32", "f32 f32", pairs("f32"), approximate("full", bool(ftz)))
        )
    rows.append(Row("tanh.approx.f32 $d, $a;", "f32", "f32", one, approximate("tanh", False)))
    run_rows(rows)


def coarse(fn):
    """rcp.approx.ftz.f64 and rsqrt.approx: results good to 20 bits, flushed when subnormal."""

    def want(a):
        a = flushed(a, "f64")
        v = decode(a, "f64")
        if v.what == NAN or (fn == "rsqrt" and v.negative and v.what != 0):
            return Nan("f64")
        if v.what == 0:
            return (0x7FF << 52) | (a & 1 << 63)
        if v.what == "inf":
            return a & 1 << 63
        exact = 1 / float(v.number) if fn == "rcp" else float(v.number) ** -0.5
        import struct

        def accepts(got):
            x = struct.unpack("<d", struct.pack("<Q", got))[0]
            return abs(x - exact) <= abs(exact) * 2.0**-19 or (abs(exact) < 2.0**-1022 and x == 0)

        return accepts

    return want


def test_approximations_in_f64():
    one = [(b,) for b in edges("f64")]
    rows = [Row(f"{n}.approx.ftz.f64 $d, $a;", "f64", "f64", one, coarse(n)) for n in ("rcp", "rsqrt")]
    run_rows(
        [
            *rows,
            Row(
                "rsqrt.approx.f64 $d, $a;",
                "f64",
                "f64",
                [(f64(x),) for x in (1.0, 4.0, 3.0, 1e300, 1e-300)],
                coarse("rsqrt"),
            ),
        ]
    )
