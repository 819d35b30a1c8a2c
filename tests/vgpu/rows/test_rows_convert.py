"""cvt between all types, in every rounding, with saturation, against exact fractions; moves, packs and addresses."""

from fractions import Fraction

import pytest
from exact import FORMATS, INF, NAN, Value, decode, edges, encode, flushed
from harness import Nan, Row, f32, f64, mix, run_rows
from test_rows_integer import as_kind, values

INTEGERS = ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")
FLOATS = ("f16", "bf16", "f32", "f64")
ROUND = {"rni": "rn", "rzi": "rz", "rmi": "rm", "rpi": "rp"}


def limits(kind):
    n = int(kind[1:])
    return (-(1 << (n - 1)), (1 << (n - 1)) - 1) if kind[0] == "s" else (0, (1 << n) - 1)


def extended(x, kind):
    """What a destination register wider than the type holds: the value, by its sign."""
    return as_kind(x, kind)


def integers(kind):
    n = int(kind[1:])
    near = [(1 << k) + d for k in range(8, n, 5) for d in (-1, 0, 1)]
    ties = [
        0x1000001,
        0x1000003,
        0x3000001,
        (1 << 53) + 1,
        (1 << 53) + 3,
        (1 << 62) + (1 << 38),
        (1 << 62) + (1 << 38) + 1,
        2049,
        2051,
        65504,
        65519,
        65520,
        257,
        259,
    ]
    some = values(max(n, 16)) + near + ties + [-x for x in near + ties]
    return [(x & ((1 << n) - 1),) for x in dict.fromkeys(some)]


@pytest.mark.parametrize("skind", INTEGERS)
def test_integer_to_integer(skind):
    rows = []
    for dkind in INTEGERS:
        rows.append(
            Row(
                f"cvt.{dkind}.{skind} $d, $a;",
                dkind,
                skind,
                integers(skind),
                lambda a, s=skind, d=dkind: extended(as_kind(a, s), d),
            )
        )
        low, high = limits(dkind)
        want = lambda a, s=skind, lo=low, hi=high: max(lo, min(hi, as_kind(a, s)))  # noqa: E731
        rows.append(Row(f"cvt.sat.{dkind}.{skind} $d, $a;", dkind, skind, integers(skind), want))
    run_rows(rows)


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_integer_to_float(mode):
    rows = []
    for skind in INTEGERS if mode == "rn" else ("s16", "s32", "u32", "s64", "u64"):
        for dkind in FLOATS:

            def want(a, s=skind, d=dkind):
                x = as_kind(a, s)
                return encode(Value(x < 0, Fraction(abs(x))), d, mode)

            rows.append(Row(f"cvt.{mode}.{dkind}.{skind} $d, $a;", dkind, skind, integers(skind)[::2], want))
    run_rows(rows)


def floats(kind):
    """Values near integers, ties, and the limits of the integer types."""
    out = list(edges(kind, extra=10))
    for x in (0.25, 0.5, 0.75, 1.25, 1.5, 2.5, 3.5, 126.5, 127.5, 128.5, 254.5, 255.5, 32767.5, 65534.0, 65535.5):
        out += [encode(Value(n, Fraction(x)), kind) for n in (False, True)]
    for n in (7, 8, 15, 16, 31, 32, 63, 64):
        for bits in (encode(Value(False, Fraction(1 << n)), kind),):
            out += [b ^ s for b in (bits - 1, bits, bits + 1) for s in (0, FORMATS[kind].sign)]
    return [(b,) for b in dict.fromkeys(out)]


def to_integer(skind, dkind, mode, ftz=False):
    low, high = limits(dkind)

    def want(a):
        v = decode(flushed(a, skind) if ftz else a, skind)
        if v.what == NAN:  # PTX ISA, cvt: 0, or the highest bit alone where a 64-bit type takes part
            return 1 << (int(dkind[1:]) - 1) if skind == "f64" or dkind[1:] == "64" else 0
        if v.what == INF:
            return low if v.negative else high
        x = v.number
        whole = {"rz": lambda: int(x), "rm": lambda: x.__floor__(), "rp": lambda: x.__ceil__(), "rn": lambda: round(x)}[
            mode
        ]()
        return max(low, min(high, whole))

    return want


def widened(want, kind):
    """Of destinations narrower than a register only the type's own bits are looked at for NaN."""

    def wide(a):
        w = want(a)
        return as_kind(w, kind)

    return wide


@pytest.mark.parametrize("imode", list(ROUND))
def test_float_to_integer_clamps(imode):
    rows = []
    for skind in FLOATS:
        for dkind in INTEGERS if imode == "rzi" else ("s8", "u16", "s32", "u32", "s64", "u64"):
            want = widened(to_integer(skind, dkind, ROUND[imode]), dkind)
            rows.append(Row(f"cvt.{imode}.{dkind}.{skind} $d, $a;", dkind, skind, floats(skind), want))
    if imode == "rpi":
        for dkind in ("s32", "u64"):
            want = widened(to_integer("f32", dkind, "rp", ftz=True), dkind)
            rows.append(Row(f"cvt.rpi.ftz.{dkind}.f32 $d, $a;", dkind, "f32", floats("f32"), want))
    run_rows(rows)


def convert(skind, dkind, mode="rn", *, ftz=False, sat=False, relu=False, integral=None):
    def want(a):
        if ftz and skind == "f32":
            a = flushed(a, skind)
        v = decode(a, skind)
        if integral and v.what not in (NAN, INF):
            x = v.number
            whole = {
                "rzi": lambda: int(x),
                "rmi": lambda: x.__floor__(),
                "rpi": lambda: x.__ceil__(),
                "rni": lambda: round(x),
            }[integral]()
            v = Value(v.negative, Fraction(abs(whole)))
        if sat:
            if v.what == NAN or v.negative or v.what == 0:
                return 0
            if v.what == INF or v.what > 1:
                v = Value(False, Fraction(1))
        if relu and v.what != NAN and v.negative:
            return 0
        bits = encode(v, dkind, mode)
        if bits is None:
            return Nan(dkind)
        return flushed(bits, dkind) if ftz and dkind == "f32" else bits

    return want


def narrowing(skind, dkind):
    """Values of the wider type that lie between two of the narrower one: on ties, beside them, at its limits."""
    f = FORMATS[dkind]
    out = []
    for bits in (0, 1, 2, (1 << f.mbits) - 1, 1 << f.mbits, f.bias << f.mbits, (f.bias << f.mbits) + 1, f.biggest):
        low = decode(bits, dkind).what
        high = decode(bits + 1, dkind).what if bits != f.biggest else low * 2 - decode(bits - 1, dkind).what
        for k in (
            Fraction(1, 2),
            Fraction(1, 4),
            Fraction(1, 2) + Fraction(1, 1 << 12),
            Fraction(1, 2) - Fraction(1, 1 << 12),
        ):
            out += [encode(Value(n, low + (high - low) * k), skind) for n in (False, True)]
        middle = encode(Value(False, (low + high) / 2), skind)
        out += [middle + 1, middle - 1 if middle else 0]
    return [(b,) for b in dict.fromkeys(out)] + [(b,) for b in edges(skind)]


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_narrowing_rounds_once(mode):
    rows = []
    for skind, dkind in (("f64", "f32"), ("f64", "f16"), ("f64", "bf16"), ("f32", "f16"), ("f32", "bf16")):
        rows.append(
            Row(
                f"cvt.{mode}.{dkind}.{skind} $d, $a;",
                dkind,
                skind,
                narrowing(skind, dkind),
                convert(skind, dkind, mode),
            )
        )
    rows.append(
        Row(
            f"cvt.{mode}.ftz.f32.f64 $d, $a;",
            "f32",
            "f64",
            narrowing("f64", "f32"),
            convert("f64", "f32", mode, ftz=True),
        )
    )
    run_rows(rows)


def test_widening_saturation_and_flushing():
    rows = []
    for skind, dkind in (("f16", "f32"), ("bf16", "f32"), ("f16", "f64"), ("bf16", "f64"), ("f32", "f64")):
        rows.append(
            Row(f"cvt.{dkind}.{skind} $d, $a;", dkind, skind, [(b,) for b in edges(skind)], convert(skind, dkind))
        )
    one = [(b,) for b in edges("f32")]
    rows.append(Row("cvt.sat.f32.f32 $d, $a;", "f32", "f32", one, convert("f32", "f32", sat=True)))
    rows.append(Row("cvt.ftz.f32.f32 $d, $a;", "f32", "f32", one, convert("f32", "f32", ftz=True)))
    rows.append(Row("cvt.ftz.sat.f32.f32 $d, $a;", "f32", "f32", one, convert("f32", "f32", ftz=True, sat=True)))
    rows.append(Row("cvt.ftz.f64.f32 $d, $a;", "f64", "f32", one, convert("f32", "f64", ftz=True)))
    rows.append(
        Row("cvt.sat.f64.f64 $d, $a;", "f64", "f64", [(b,) for b in edges("f64")], convert("f64", "f64", sat=True))
    )
    rows.append(
        Row("cvt.rn.sat.f16.f32 $d, $a;", "f16", "f32", narrowing("f32", "f16"), convert("f32", "f16", sat=True))
    )
    rows.append(
        Row("cvt.rn.sat.f32.f64 $d, $a;", "f32", "f64", narrowing("f64", "f32"), convert("f64", "f32", sat=True))
    )
    rows.append(
        Row("cvt.rn.ftz.f16.f32 $d, $a;", "f16", "f32", narrowing("f32", "f16"), convert("f32", "f16", ftz=True))
    )
    rows.append(
        Row("cvt.rn.relu.f16.f32 $d, $a;", "f16", "f32", narrowing("f32", "f16"), convert("f32", "f16", relu=True))
    )
    rows.append(
        Row("cvt.rn.relu.bf16.f32 $d, $a;", "bf16", "f32", narrowing("f32", "bf16"), convert("f32", "bf16", relu=True))
    )
    run_rows(rows)


def test_rounding_to_an_integral_value_keeps_the_sign():
    rows = []
    for kind in FLOATS:
        for imode in ROUND:
            want = convert(kind, kind, integral=imode)
            rows.append(Row(f"cvt.{imode}.{kind}.{kind} $d, $a;", kind, kind, floats(kind), want))
    for imode in ROUND:
        want = convert("f32", "f32", integral=imode, ftz=True)
        rows.append(Row(f"cvt.{imode}.ftz.f32.f32 $d, $a;", "f32", "f32", floats("f32"), want))
    rows.append(
        Row("cvt.rni.sat.f32.f32 $d, $a;", "f32", "f32", floats("f32"), convert("f32", "f32", integral="rni", sat=True))
    )
    run_rows(rows)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_two_f32_to_a_pair(kind):
    """The first operand goes to the high half."""
    some = [b for (b,) in narrowing("f32", kind)]
    cases = mix(some, some, limit=200)
    rows = []
    for mode in ("rn", "rz"):
        for relu in (False, True):
            single = convert("f32", kind, mode, relu=relu)

            def want(a, b, single=single):
                high, low = single(a), single(b)
                if callable(high) or callable(low):
                    return lambda got: all(
                        w(g) if callable(w) else w == g for w, g in ((low, got & 0xFFFF), (high, got >> 16))
                    )
                return high << 16 | low

            rows.append(
                Row(
                    f"cvt.{mode}{'.relu' if relu else ''}.{kind}x2.f32 $d, $a, $b;", f"{kind}x2", "f32 f32", cases, want
                )
            )
    run_rows(rows)


def test_tf32_keeps_ten_bits_of_fraction():
    def want(a):
        v = decode(a, "f32")
        if v.what in (NAN, INF):
            return Nan("f32") if v.what == NAN else a
        return (a + 0x1000) & 0xFFFFE000

    cases = [(b,) for b in edges("f32")] + [(f32(1.0) + n,) for n in (0xFFF, 0x1000, 0x1001, 0x3000)]
    run_rows([Row("cvt.rna.tf32.f32 $d, $a;", "b32", "f32", cases, want)])


def test_moves_packs_and_unpacks():
    rows = [
        Row("mov.b32 $d, {$a, $b};", "b32", "b16 b16", mix(values(16), values(16)), lambda a, b: a | b << 16),
        Row("mov.b64 $d, {$a, $b};", "b64", "b32 b32", mix(values(32), values(32)), lambda a, b: a | b << 32),
        Row(
            "mov.b64 $d, {$a, $b, $c, $e};",
            "b64",
            "b16 b16 b16 b16",
            mix(*[values(16)] * 4, limit=100),
            lambda a, b, c, e: a | b << 16 | c << 32 | e << 48,
        ),
        Row("mov.b32 {$d, $q}, $a;", "b16 b16", "b32", [(v,) for v in values(32)], lambda a: (a, a >> 16)),
        Row("mov.b64 {$d, $q}, $a;", "b32 b32", "b64", [(v,) for v in values(64)], lambda a: (a, a >> 32)),
        Row("mov.b64 {_, $d}, $a;", "b32", "b64", [(v,) for v in values(64)], lambda a: a >> 32),
        Row("mov.b64 $d, $a;", "b64", "f64", [(v,) for v in values(64)], lambda a: a),
        Row("mov.b32 $d, $a;", "f32", "b32", [(v,) for v in values(32)], lambda a: a),
        Row("mov.f32 $d, $a;", "f32", "f32", [(v,) for v in values(32)], lambda a: a),
        Row("mov.f64 $d, $a;", "f64", "f64", [(v,) for v in values(64)], lambda a: a),
        Row("mov.u16 $d, $a;", "b16", "b16", [(v,) for v in values(16)], lambda a: a),
        Row("mov.pred $d, $a;", "pred", "pred", [(0,), (1,)] * 4, lambda a: a),
    ]
    for text, kind, bits in (
        ("0f3F800000", "f32", 0x3F800000),
        ("0d3FF0000000000000", "f64", f64(1.0)),
        ("0f7FC00001", "f32", 0x7FC00001),
        ("0f80000000", "f32", 0x80000000),
        ("-1", "u32", 0xFFFFFFFF),
        ("0xFFFFFFFFFFFFFFFF", "u64", (1 << 64) - 1),
        ("017", "u32", 15),
        ("-9223372036854775808", "s64", 1 << 63),
        ("0b101", "u32", 5),
        ("WARP_SZ", "u32", 32),
        ("4294967295U", "u32", 0xFFFFFFFF),
    ):
        reg = kind if kind[0] == "f" else f"b{kind[1:]}"
        rows.append(Row(f"mov.{kind} $d, {text};", reg, "b32", [(0,)], lambda a, bits=bits: bits))
    run_rows(rows)
