"""setp, set, selp and slct over all types and comparisons."""

import operator

import pytest
from exact import NAN, decode, edges, flushed
from harness import Row, mix, run_rows
from test_rows_integer import as_kind, values

CMP = {"eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}
UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


@pytest.mark.parametrize("n", [16, 32, 64])
def test_setp_of_integers(n):
    rows = []
    cases = mix(values(n), values(n))
    for s in "bsu":
        for name in ("eq", "ne") if s == "b" else [*CMP, *UNSIGNED] if s == "u" else CMP:
            fn = CMP[UNSIGNED.get(name, name)]
            kind = f"{s}{n}"
            want = lambda a, b, fn=fn, k=kind: int(fn(as_kind(a, k), as_kind(b, k)))  # noqa: E731
            rows.append(Row(f"setp.{name}.{kind} $d, $a, $b;", "pred", f"b{n} b{n}", cases, want))
    run_rows(rows)


def float_compare(name, kind, ftz=False):
    def want(a, b):
        x, y = (decode(flushed(o, kind) if ftz else o, kind) for o in (a, b))
        unordered = NAN in (x.what, y.what)
        if name in ("num", "nan"):
            return int(unordered == (name == "nan"))
        if unordered:
            return int(name.endswith("u") and name != "u")

        def key(v):
            return (-1 if v.negative else 1, 0) if v.what == "inf" else (0, v.number)

        return int(CMP[name.removesuffix("u")](key(x), key(y)))

    return want


@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "bf16"])
def test_setp_of_floats(kind):
    few = edges(kind, extra=3)[:54]
    cases = mix(few, few, limit=300) + [(b, b) for b in few]
    rows = []
    for name in (*CMP, *(f"{c}u" for c in CMP), "num", "nan"):
        rows.append(Row(f"setp.{name}.{kind} $d, $a, $b;", "pred", f"{kind} {kind}", cases, float_compare(name, kind)))
    if kind in ("f32", "f16"):
        rows.append(
            Row(f"setp.eq.ftz.{kind} $d, $a, $b;", "pred", f"{kind} {kind}", cases, float_compare("eq", kind, True))
        )
        rows.append(
            Row(f"setp.ltu.ftz.{kind} $d, $a, $b;", "pred", f"{kind} {kind}", cases, float_compare("ltu", kind, True))
        )
    run_rows(rows)


def test_setp_combined_with_a_predicate_and_its_complement():
    rows = []
    cases = [(a, b, c) for a, b in mix([0, 1, 5, 0xFFFFFFFF], [0, 1, 5]) for c in (0, 1)]
    for name, fn in (("and", operator.and_), ("or", operator.or_), ("xor", operator.xor)):
        rows.append(
            Row(
                f"setp.lt.{name}.s32 $d|$q, $a, $b, $c;",
                "pred pred",
                "b32 b32 pred",
                cases,
                lambda a, b, c, f=fn: (f(int(as_kind(a, "s32") < b), c), f(1 - int(as_kind(a, "s32") < b), c)),
            )
        )
        rows.append(
            Row(
                f"setp.lt.{name}.s32 $d, $a, $b, !$c;",
                "pred",
                "b32 b32 pred",
                cases,
                lambda a, b, c, f=fn: f(int(as_kind(a, "s32") < b), 1 - c),
            )
        )
    pairs = [(a, b) for a, b, c in cases if c]
    rows.append(
        Row("setp.ge.u32 $d|$q, $a, $b;", "pred pred", "b32 b32", pairs, lambda a, b: (int(a >= b), int(a < b)))
    )
    run_rows(rows)


@pytest.mark.parametrize("kind", ["f16x2", "bf16x2"])
def test_setp_of_pairs(kind):
    single = kind[:-2]
    few = edges(single, extra=2)
    cases = mix(
        [a | b << 16 for a, b in zip(few, few[1:] + few[:1], strict=True)], [a | a << 16 for a in few], limit=200
    )
    rows = []
    for name in ("eq", "lt", "geu", "nan"):
        one = float_compare(name, single)
        rows.append(
            Row(
                f"setp.{name}.{kind} $d|$q, $a, $b;",
                "pred pred",
                f"{kind} {kind}",
                cases,
                lambda a, b, f=one: (f(a & 0xFFFF, b & 0xFFFF), f(a >> 16, b >> 16)),
            )
        )
    run_rows(rows)


def test_set_gives_ones_or_a_float():
    rows = []
    ints, fl = mix(values(32), values(32), limit=80), mix(edges("f32", extra=2), edges("f32", extra=2), limit=200)
    for name in ("eq", "lt", "ge"):
        want = lambda a, b, f=CMP[name]: int(f(as_kind(a, "s32"), as_kind(b, "s32")))  # noqa: E731
        rows.append(Row(f"set.{name}.u32.s32 $d, $a, $b;", "b32", "b32 b32", ints, lambda a, b, w=want: -w(a, b)))
        rows.append(
            Row(f"set.{name}.f32.s32 $d, $a, $b;", "f32", "b32 b32", ints, lambda a, b, w=want: w(a, b) * 0x3F800000)
        )
    for name in ("neu", "gt", "num"):
        want = float_compare(name, "f32")
        rows.append(Row(f"set.{name}.s32.f32 $d, $a, $b;", "b32", "f32 f32", fl, lambda a, b, w=want: -w(a, b)))
        rows.append(
            Row(f"set.{name}.f32.f32 $d, $a, $b;", "f32", "f32 f32", fl, lambda a, b, w=want: w(a, b) * 0x3F800000)
        )
    want = float_compare("lt", "f32")
    three = [(a, b, k) for a, b in fl[:60] for k in (0, 1)]
    rows.append(
        Row("set.lt.and.u32.f32 $d, $a, $b, $c;", "b32", "f32 f32 pred", three, lambda a, b, c, w=want: -(w(a, b) & c))
    )
    run_rows(rows)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_set_of_halves(kind):
    few = edges(kind, extra=2)
    cases = mix(few, few, limit=150)
    one = 0x3C00 if kind == "f16" else 0x3F80
    rows = []
    for name in ("eq", "gtu", "nan"):
        w = float_compare(name, kind)
        rows.append(
            Row(f"set.{name}.{kind}.{kind} $d, $a, $b;", kind, f"{kind} {kind}", cases, lambda a, b, w=w: w(a, b) * one)
        )
        rows.append(
            Row(f"set.{name}.u32.{kind} $d, $a, $b;", "b32", f"{kind} {kind}", cases, lambda a, b, w=w: -w(a, b))
        )
        pairs = [(a | b << 16, b | b << 16) for a, b in cases[:80]]
        rows.append(
            Row(
                f"set.{name}.{kind}x2.{kind}x2 $d, $a, $b;",
                "b32",
                "b32 b32",
                pairs,
                lambda a, b, w=w: (w(a & 0xFFFF, b & 0xFFFF) | w(a >> 16, b >> 16) << 16) * one,
            )
        )
        rows.append(
            Row(
                f"set.{name}.u32.{kind}x2 $d, $a, $b;",
                "b32",
                "b32 b32",
                pairs,
                lambda a, b, w=w: (w(a & 0xFFFF, b & 0xFFFF) | w(a >> 16, b >> 16) << 16) * 0xFFFF,
            )
        )
    run_rows(rows)


def test_selp_and_slct():
    rows = []
    for kind in ("b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"):
        n = int(kind[1:])
        reg = kind if kind[0] == "f" else f"b{n}"
        cases = [(a, b, c) for a, b in mix(values(n), values(n), limit=30) for c in (0, 1)]
        rows.append(Row(f"selp.{kind} $d, $a, $b, $c;", reg, f"{reg} {reg} pred", cases, lambda a, b, c: a if c else b))
        rows.append(
            Row(
                f"slct.{kind}.s32 $d, $a, $b, $c;",
                reg,
                f"{reg} {reg} b32",
                [(a, b, x) for a, b, c in cases for x in (c, 0x80000000 + c)],
                lambda a, b, c: a if c < 0x80000000 else b,
            )
        )
    cases = [(1, 2, c) for c in edges("f32")]

    def pick(a, b, c):
        v = decode(c, "f32")
        return b if v.what == NAN or (v.negative and v.what != 0) else a

    rows.append(Row("slct.u32.f32 $d, $a, $b, $c;", "b32", "b32 b32 f32", cases, pick))
    rows.append(
        Row(
            "slct.ftz.u32.f32 $d, $a, $b, $c;",
            "b32",
            "b32 b32 f32",
            cases,
            lambda a, b, c: pick(a, b, flushed(c, "f32")),
        )
    )
    run_rows(rows)
