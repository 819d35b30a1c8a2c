"""fp16 and bf16, alone and in pairs: one rounding, against exact fractions."""

import math

import pytest
from exact import FORMATS, INF, NAN, Value, arithmetic, decode, edges, encode, flushed, pairwise
from harness import Nan, Row, mix, run_rows
from test_rows_float import order

KINDS = ("f16", "bf16")


def ties(kind):
    """Sums and products that lie exactly between two halves, or a hair beside it; products that are subnormal."""
    f = FORMATS[kind]
    one, ulp = f.bias << f.mbits, 1
    half_ulp = (f.bias - f.mbits - 1) << f.mbits
    out = [
        (one, half_ulp),
        (one + ulp, half_ulp),
        (one, half_ulp + 1),
        (one, half_ulp - 1),
        (f.biggest, half_ulp),
        (f.biggest, f.biggest),
    ]
    out += [
        (one + ulp, one + ulp),
        (one + 3, one + 5),
        (1 << f.mbits, one - 1),
        ((1 << f.mbits) + 1, one - 3),
        (1, one >> 1),
        (3, one - (1 << f.mbits)),
    ]
    small = [
        1,
        2,
        3,
        5,
        0x40,
        1 << f.mbits,
        (1 << f.mbits) + 1,
        (3 << f.mbits) + 1,
        (f.bias // 2 << f.mbits) + 1,
        ((f.bias // 2 + 2) << f.mbits) + 5,
    ]
    return out + [(a, b) for a in small for b in [*small, one - 1, one + 1, half_ulp + 3]]


@pytest.mark.parametrize("kind", KINDS)
def test_arithmetic_rounds_once(kind):
    pairs = ties(kind) + mix(edges(kind), edges(kind), limit=200)
    triples = [(a, b, c) for a, b in ties(kind)[:60:2] for c in (0, 1, a, b | 0x8000)] + mix(
        *[edges(kind)] * 3, limit=200
    )
    two, three = f"{kind} {kind}", f"{kind} {kind} {kind}"
    rows = []
    for op in ("add", "sub", "mul"):
        rows.append(Row(f"{op}.rn.{kind} $d, $a, $b;", kind, two, pairs, arithmetic(op, kind)))
        rows.append(Row(f"{op}.{kind} $d, $a, $b;", kind, two, pairs[::4], arithmetic(op, kind)))
    rows.append(Row(f"fma.rn.{kind} $d, $a, $b, $c;", kind, three, triples, arithmetic("fma", kind)))
    rows.append(
        Row(f"fma.rn.relu.{kind} $d, $a, $b, $c;", kind, three, triples[::2], arithmetic("fma", kind, relu=True))
    )
    if kind == "f16":
        for options in ({"ftz": True}, {"sat": True}, {"ftz": True, "sat": True}):
            suffix = "".join(f".{o}" for o in options)
            rows += [
                Row(f"{op}{suffix}.f16 $d, $a, $b;", kind, two, pairs[::3], arithmetic(op, kind, **options))
                for op in ("add", "sub", "mul")
            ]
            rows.append(
                Row(
                    f"fma.rn{suffix}.f16 $d, $a, $b, $c;", kind, three, triples[::3], arithmetic("fma", kind, **options)
                )
            )
    run_rows(rows)


@pytest.mark.parametrize("kind", KINDS)
def test_arithmetic_of_pairs(kind):
    one = edges(kind, extra=6)
    patterns = [a | b << 16 for a, b in zip(one, one[::-1], strict=True)]
    pair, rows = f"{kind}x2", []
    two, three = mix(patterns, patterns, limit=150), mix(patterns, patterns, patterns, limit=150)
    for op in ("add", "sub", "mul"):
        rows.append(Row(f"{op}.{pair} $d, $a, $b;", pair, f"{pair} {pair}", two, pairwise(arithmetic(op, kind))))
    rows.append(
        Row(f"fma.rn.{pair} $d, $a, $b, $c;", pair, f"{pair} {pair} {pair}", three, pairwise(arithmetic("fma", kind)))
    )
    for op in ("min", "max"):
        rows.append(Row(f"{op}.{pair} $d, $a, $b;", pair, f"{pair} {pair}", two, pairwise(order(op, kind))))
        rows.append(
            Row(f"{op}.NaN.{pair} $d, $a, $b;", pair, f"{pair} {pair}", two, pairwise(order(op, kind, nan=True)))
        )
    numbers = [(p,) for p in patterns if all(decode(h, kind).what != NAN for h in (p & 0xFFFF, p >> 16))]
    rows.append(Row(f"abs.{pair} $d, $a;", pair, pair, numbers, pairwise(lambda a: a & 0x7FFF)))
    rows.append(Row(f"neg.{pair} $d, $a;", pair, pair, numbers, pairwise(lambda a: a ^ 0x8000)))
    run_rows(rows)


@pytest.mark.parametrize("kind", KINDS)
def test_order_and_sign(kind):
    few, rows = edges(kind, extra=3), []
    cases = mix(few, few, limit=400)
    for op in ("min", "max"):
        rows.append(Row(f"{op}.{kind} $d, $a, $b;", kind, f"{kind} {kind}", cases, order(op, kind)))
        rows.append(Row(f"{op}.NaN.{kind} $d, $a, $b;", kind, f"{kind} {kind}", cases, order(op, kind, nan=True)))
        rows.append(
            Row(f"{op}.xorsign.abs.{kind} $d, $a, $b;", kind, f"{kind} {kind}", cases, order(op, kind, xorsign=True))
        )
    if kind == "f16":
        rows.append(Row("min.ftz.f16 $d, $a, $b;", kind, "f16 f16", cases, order("min", kind, ftz=True)))
    numbers = [(a,) for a in edges(kind) if decode(a, kind).what != NAN]
    rows.append(Row(f"abs.{kind} $d, $a;", kind, kind, numbers, lambda a: a & 0x7FFF))
    rows.append(Row(f"neg.{kind} $d, $a;", kind, kind, numbers, lambda a: a ^ 0x8000))
    run_rows(rows)


def approximate(fn, kind, ulps, ftz=False):
    """Within `ulps` units in the last place of a half, or a subnormal step."""

    def want(a):
        v = decode(flushed(a, kind) if ftz else a, kind)
        if v.what == NAN:
            return Nan(kind)
        x = math.copysign(math.inf if v.what == INF else float(v.what), -1 if v.negative else 1)
        exact = fn(x)
        if math.isinf(exact) or exact == 0:
            return encode(Value(exact < 0 or (exact == 0 and math.copysign(1, exact) < 0), INF if exact else 0), kind)

        def accepts(got):
            g = decode(got, kind)
            if g.what in (NAN, INF):
                return g.what == INF and abs(exact) >= float(decode(FORMATS[kind].biggest, kind).what)
            step = 2.0 ** (max(math.frexp(exact)[1] - 1, 1 - FORMATS[kind].bias) - FORMATS[kind].mbits)
            return abs(float(g.number) - exact) <= ulps * step or (ftz and abs(exact) < 2.0 ** (1 - FORMATS[kind].bias))

        return accepts

    return want


def power(x):
    return 2.0**x if x < 1000 else math.inf


def test_approximations():
    """ex2.approx.f16: 2^-9.9 relative; tanh.approx.f16: 2^-10.987 absolute; bf16: 2^-7 and 2^-8 (PTX ISA)."""
    rows = []
    for kind in KINDS:
        one = [(b,) for b in edges(kind)]
        ftz = ".ftz" if kind == "bf16" else ""
        pairs = [(a | b << 16,) for (a,), (b,) in zip(one, one[::-1], strict=True)]
        for name, fn in ((f"ex2.approx{ftz}", power), ("tanh.approx", math.tanh)):
            want = approximate(fn, kind, 1.0, ftz=bool(ftz) and "ex2" in name)
            rows.append(Row(f"{name}.{kind} $d, $a;", kind, kind, one, want))
            rows.append(Row(f"{name}.{kind}x2 $d, $a;", f"{kind}x2", f"{kind}x2", pairs, pairwise(want)))
    run_rows(rows)
