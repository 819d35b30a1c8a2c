"""Integer arithmetic, logic, shifts and bit fields, against Python's integers."""

import pytest
from harness import Row, mix, run_rows

WIDTHS = (16, 32, 64)
KINDS = [f"{s}{n}" for n in WIDTHS for s in "su"]


def mask(n):
    return (1 << n) - 1


def to_signed(x, n):
    x &= mask(n)
    return x - (1 << n) if x >> (n - 1) else x


def as_kind(x, kind):
    n = int(kind[1:])
    return to_signed(x, n) if kind[0] == "s" else x & mask(n)


def values(n):
    """Edge patterns of n bits."""
    some = [
        0,
        1,
        2,
        3,
        7,
        mask(n),
        mask(n) - 1,
        1 << (n - 1),
        (1 << (n - 1)) - 1,
        (1 << (n - 1)) + 1,
        1 << (n // 2),
        mask(n // 2),
    ]
    return [*some, 1311768467463790320 & mask(n), 17357386176853808775 & mask(n), 10, 255, 256]


def binary(op, kind, fn, cases=None):
    n = int(kind[1:])
    reg = f"b{n}"

    def want(a, b):
        return fn(as_kind(a, kind), as_kind(b, kind)) & mask(n)

    return Row(f"{op}.{kind} $d, $a, $b;", reg, f"{reg} {reg}", cases or mix(values(n), values(n)), want)


def quotient(a, b):
    if b == 0:
        return -1
    q = abs(a) // abs(b)
    return -q if (a < 0) != (b < 0) else q


def remainder(a, b):
    return a if b == 0 else a - b * quotient(a, b)


def clamp(x, kind):
    n = int(kind[1:])
    return max(-(1 << (n - 1)), min((1 << (n - 1)) - 1, x))


def test_add_sub_mul_min_max():
    rows = []
    for kind in KINDS:
        n = int(kind[1:])
        rows.append(binary("add", kind, lambda a, b: a + b))
        rows.append(binary("sub", kind, lambda a, b: a - b))
        rows.append(binary("mul.lo", kind, lambda a, b: a * b))
        rows.append(binary("mul.hi", kind, lambda a, b, n=n: a * b >> n))
        rows.append(binary("min", kind, min))
        rows.append(binary("max", kind, max))
    rows.append(binary("add.sat", "s32", lambda a, b: clamp(a + b, "s32")))
    rows.append(binary("sub.sat", "s32", lambda a, b: clamp(a - b, "s32")))
    rows.append(binary("min.relu", "s32", lambda a, b: max(0, min(a, b))))
    rows.append(binary("max.relu", "s32", lambda a, b: max(0, a, b)))
    run_rows(rows)


def test_division_and_remainder():
    """By zero, all ones and the dividend come out, as on current devices; MIN / -1 is MIN."""
    rows = [binary(op, kind, fn) for kind in KINDS for op, fn in (("div", quotient), ("rem", remainder))]
    run_rows(rows)


def test_wide_products_and_mad():
    rows = []
    for kind in KINDS:
        n, reg = int(kind[1:]), f"b{kind[1:]}"
        triple = mix(values(n), values(n), values(n), limit=300)

        def product(a, b, kind=kind):
            return as_kind(a, kind) * as_kind(b, kind)

        if n < 64:
            wide = f"b{2 * n}"
            rows.append(Row(f"mul.wide.{kind} $d, $a, $b;", wide, f"{reg} {reg}", mix(values(n), values(n)), product))
            more = mix(values(n), values(n), values(2 * n), limit=300)
            rows.append(
                Row(
                    f"mad.wide.{kind} $d, $a, $b, $c;",
                    wide,
                    f"{reg} {reg} {wide}",
                    more,
                    lambda a, b, c, p=product: p(a, b) + c,
                )
            )
        src = f"{reg} {reg} {reg}"
        rows.append(Row(f"mad.lo.{kind} $d, $a, $b, $c;", reg, src, triple, lambda a, b, c, p=product: p(a, b) + c))
        rows.append(
            Row(f"mad.hi.{kind} $d, $a, $b, $c;", reg, src, triple, lambda a, b, c, p=product, n=n: (p(a, b) >> n) + c)
        )
    rows.append(
        Row(
            "mad.hi.sat.s32 $d, $a, $b, $c;",
            "b32",
            "b32 b32 b32",
            mix(values(32), values(32), values(32)),
            lambda a, b, c: clamp((to_signed(a, 32) * to_signed(b, 32) >> 32) + to_signed(c, 32), "s32"),
        )
    )
    run_rows(rows)


def test_24_bit_products():
    rows = []
    for kind in ("s32", "u32"):

        def low24(x, kind=kind):
            x &= mask(24)
            return x - (1 << 24) if kind == "s32" and x >> 23 else x

        pairs, triples = (
            mix([*values(32), 8388608, 8388607, 16777215], values(32)),
            mix(values(32), values(32), values(32)),
        )
        for part, shift in (("lo", 0), ("hi", 16)):
            rows.append(
                Row(
                    f"mul24.{part}.{kind} $d, $a, $b;",
                    "b32",
                    "b32 b32",
                    pairs,
                    lambda a, b, f=low24, s=shift: f(a) * f(b) >> s,
                )
            )
            rows.append(
                Row(
                    f"mad24.{part}.{kind} $d, $a, $b, $c;",
                    "b32",
                    "b32 b32 b32",
                    triples,
                    lambda a, b, c, f=low24, s=shift: (f(a) * f(b) >> s) + c,
                )
            )
    rows.append(
        Row(
            "mad24.hi.sat.s32 $d, $a, $b, $c;",
            "b32",
            "b32 b32 b32",
            triples,
            lambda a, b, c: clamp((to_signed(a, 24) * to_signed(b, 24) >> 16) + to_signed(c, 32), "s32"),
        )
    )
    run_rows(rows)


def test_sad_and_dot_products():
    rows = []
    for kind in KINDS:
        n, reg = int(kind[1:]), f"b{kind[1:]}"
        rows.append(
            Row(
                f"sad.{kind} $d, $a, $b, $c;",
                reg,
                f"{reg} {reg} {reg}",
                mix(values(n), values(n), values(n)),
                lambda a, b, c, kind=kind: c + abs(as_kind(a, kind) - as_kind(b, kind)),
            )
        )
    triples = mix([*values(32), 2164227841, 2155937791], [*values(32), 4286579071, 2155905152], values(32))

    def part(x, k, bits, sign):
        x = x >> (bits * k) & mask(bits)
        return to_signed(x, bits) if sign == "s" else x

    for s in "su":
        for t in "su":
            rows.append(
                Row(
                    f"dp4a.{s}32.{t}32 $d, $a, $b, $c;",
                    "b32",
                    "b32 b32 b32",
                    triples,
                    lambda a, b, c, s=s, t=t: c + sum(part(a, k, 8, s) * part(b, k, 8, t) for k in range(4)),
                )
            )
            for half, base in (("lo", 0), ("hi", 2)):
                rows.append(
                    Row(
                        f"dp2a.{half}.{s}32.{t}32 $d, $a, $b, $c;",
                        "b32",
                        "b32 b32 b32",
                        triples,
                        lambda a, b, c, s=s, t=t, o=base: (
                            c + sum(part(a, k, 16, s) * part(b, o + k, 8, t) for k in range(2))
                        ),
                    )
                )
    run_rows(rows)


def test_pairs_of_16_bit_integers():
    rows = []
    patterns = [0, 0xFFFFFFFF, 0x80007FFF, 0x7FFF8000, 0x00010001, 0xFFFF0001, 0x12348765, 0x80008000]

    def pair(fn, kind):
        def want(a, b):
            return sum((fn(as_kind(a >> s, kind), as_kind(b >> s, kind)) & 0xFFFF) << s for s in (0, 16))

        return want

    for kind in ("s16", "u16"):
        for op, fn in (("add", lambda a, b: a + b), ("min", min), ("max", max)):
            rows.append(Row(f"{op}.{kind}x2 $d, $a, $b;", "b32", "b32 b32", mix(patterns, patterns), pair(fn, kind)))
    for op, fn in (("min", min), ("max", max)):
        want = pair(lambda a, b, fn=fn: max(0, fn(a, b)), "s16")
        rows.append(Row(f"{op}.relu.s16x2 $d, $a, $b;", "b32", "b32 b32", mix(patterns, patterns), want))
    run_rows(rows)


def test_one_operand():
    rows = []
    for n in WIDTHS:
        reg, cases = f"b{n}", [(v,) for v in values(n)]
        rows.append(Row(f"neg.s{n} $d, $a;", reg, reg, cases, lambda a: -a))
        rows.append(Row(f"abs.s{n} $d, $a;", reg, reg, cases, lambda a, n=n: abs(to_signed(a, n))))
        rows.append(Row(f"not.b{n} $d, $a;", reg, reg, cases, lambda a: ~a))
        rows.append(Row(f"cnot.b{n} $d, $a;", reg, reg, cases, lambda a: int(a == 0)))
    for n in (32, 64):
        reg, cases = (
            f"b{n}",
            [(v,) for v in values(n) + [1 << k for k in range(0, n, 3)] + [mask(k) for k in range(0, n, 5)]],
        )
        rows.append(Row(f"popc.b{n} $d, $a;", "b32", reg, cases, lambda a: a.bit_count()))
        rows.append(Row(f"clz.b{n} $d, $a;", "b32", reg, cases, lambda a, n=n: n - a.bit_length()))
        rows.append(Row(f"brev.b{n} $d, $a;", reg, reg, cases, lambda a, n=n: int(f"{a:0{n}b}"[::-1], 2)))
        for s in "su":

            def top(a, n=n, s=s):
                if s == "s" and a >> (n - 1):
                    a = ~a & mask(n)
                return a.bit_length() - 1

            rows.append(Row(f"bfind.{s}{n} $d, $a;", "b32", reg, cases, lambda a, f=top: f(a)))
            rows.append(
                Row(
                    f"bfind.shiftamt.{s}{n} $d, $a;",
                    "b32",
                    reg,
                    cases,
                    lambda a, f=top, n=n: -1 if f(a) < 0 else n - 1 - f(a),
                )
            )
    run_rows(rows)


def test_logic():
    rows = []
    for n in WIDTHS:
        reg = f"b{n}"
        for op, fn in (("and", lambda a, b: a & b), ("or", lambda a, b: a | b), ("xor", lambda a, b: a ^ b)):
            rows.append(Row(f"{op}.b{n} $d, $a, $b;", reg, f"{reg} {reg}", mix(values(n), values(n)), fn))
    bits = [(a, b) for a in (0, 1) for b in (0, 1)]
    for op, fn in (("and", lambda a, b: a & b), ("or", lambda a, b: a | b), ("xor", lambda a, b: a ^ b)):
        rows.append(Row(f"{op}.pred $d, $a, $b;", "pred", "pred pred", bits * 8, fn))
    rows.append(Row("not.pred $d, $a;", "pred", "pred", [(0,), (1,)] * 8, lambda a: 1 - a))
    run_rows(rows)


def table3(a, b, c, table):
    return sum((table >> ((a >> k & 1) << 2 | (b >> k & 1) << 1 | c >> k & 1) & 1) << k for k in range(32))


@pytest.mark.parametrize(
    "tables", [(0, 0xFF, 0x80, 0x01, 0xC0, 0x96, 0xE8), (0x3C, 0xF0, 0xCC, 0xAA, 0x1A, 0x6C, 0xFE)]
)
def test_lop3(tables):
    cases = mix([0, mask(32), 0xF0F0F0F0, 0x12345678], [mask(32), 0xCCCCCCCC, 0x9ABCDEF0], [0xAAAAAAAA, 0, 0x0F1E2D3C])
    rows = [
        Row(f"lop3.b32 $d, $a, $b, $c, {t};", "b32", "b32 b32 b32", cases, lambda a, b, c, t=t: table3(a, b, c, t))
        for t in tables
    ]
    t = tables[2]
    for op in ("and", "or"):
        rows.append(
            Row(
                f"lop3.{op}.b32 $d|$q, $a, $b, $c, {t}, $e;",
                "b32 pred",
                "b32 b32 b32 pred",
                [(*x, k) for x in cases for k in (0, 1)],
                lambda a, b, c, p, op=op: (
                    table3(a, b, c, t),
                    int(table3(a, b, c, t) != 0 and p) if op == "and" else int(table3(a, b, c, t) != 0 or p),
                ),
            )
        )
    run_rows(rows)


AMOUNTS = [0, 1, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]


def test_shifts_by_the_width_and_more():
    rows = []
    for n in WIDTHS:
        reg, cases = f"b{n}", mix(values(n), AMOUNTS)
        rows.append(Row(f"shl.b{n} $d, $a, $b;", reg, f"{reg} b32", cases, lambda a, s: a << s if s < 64 else 0))
        for kind in (f"b{n}", f"u{n}"):
            rows.append(Row(f"shr.{kind} $d, $a, $b;", reg, f"{reg} b32", cases, lambda a, s: a >> s if s < 64 else 0))
        rows.append(
            Row(f"shr.s{n} $d, $a, $b;", reg, f"{reg} b32", cases, lambda a, s, n=n: to_signed(a, n) >> min(s, n - 1))
        )
        for s in (0, n - 1, n, 255):
            one = [(v,) for v in values(n)]
            rows.append(Row(f"shl.b{n} $d, $a, {s};", reg, reg, one, lambda a, s=s: a << s))
            rows.append(Row(f"shr.u{n} $d, $a, {s};", reg, reg, one, lambda a, s=s: a >> s))
            rows.append(
                Row(f"shr.s{n} $d, $a, {s};", reg, reg, one, lambda a, s=s, n=n: to_signed(a, n) >> min(s, n - 1))
            )
    run_rows(rows)


def test_funnel_shifts():
    rows = []
    cases = mix(values(32), values(32), AMOUNTS, limit=500)
    for mode in ("wrap", "clamp"):

        def amount(n, mode=mode):
            return n & 31 if mode == "wrap" else min(n, 32)

        rows.append(
            Row(
                f"shf.l.{mode}.b32 $d, $a, $b, $c;",
                "b32",
                "b32 b32 b32",
                cases,
                lambda a, b, n, f=amount: (b << 32 | a) << f(n) >> 32,
            )
        )
        rows.append(
            Row(
                f"shf.r.{mode}.b32 $d, $a, $b, $c;",
                "b32",
                "b32 b32 b32",
                cases,
                lambda a, b, n, f=amount: (b << 32 | a) >> f(n),
            )
        )
    run_rows(rows)


FIELDS = [0, 1, 5, 8, 15, 16, 31, 32, 33, 40, 63, 64, 65, 128, 255, 256, 257, 0xFFFFFFFF]


def extract(a, pos, length, n, signed):
    """The PTX manual's own loop for bfe."""
    pos, length = pos & 255, length & 255
    top = n - 1
    sign = 0 if not signed or length == 0 else a >> min(pos + length - 1, top) & 1
    out = 0
    for i in range(n):
        bit = a >> (pos + i) & 1 if i < length and pos + i <= top else sign
        out |= bit << i
    return out


def insert(a, b, pos, length, n):
    pos, length = pos & 255, length & 255
    out = b
    for i in range(length):
        if pos + i < n:
            out = out & ~(1 << (pos + i)) | (a >> i & 1) << (pos + i)
    return out


def test_bit_fields_past_the_end():
    rows = []
    for n in (32, 64):
        reg = f"b{n}"
        for s in "su":
            rows.append(
                Row(
                    f"bfe.{s}{n} $d, $a, $b, $c;",
                    reg,
                    f"{reg} b32 b32",
                    mix(values(n), FIELDS, FIELDS, limit=900),
                    lambda a, p, c, n=n, s=s: extract(a, p, c, n, s == "s"),
                )
            )
        rows.append(
            Row(
                f"bfi.b{n} $d, $a, $b, $c, $e;",
                reg,
                f"{reg} {reg} b32 b32",
                mix(values(n), values(n), FIELDS, FIELDS, limit=900),
                lambda a, b, p, c, n=n: insert(a, b, p, c, n),
            )
        )
    run_rows(rows)


def test_masks_and_sign_extension():
    rows = []
    for mode in ("clamp", "wrap"):

        def bits(pos, length, mode=mode):
            if mode == "wrap":
                pos, length = pos & 31, length & 31
            return mask(min(length, 32)) << pos if pos < 32 else 0

        rows.append(Row(f"bmsk.{mode}.b32 $d, $a, $b;", "b32", "b32 b32", mix(FIELDS, FIELDS), bits))
        for s in "su":

            def extend(a, n, mode=mode, s=s):
                n = n & 31 if mode == "wrap" else min(n, 32)
                a &= mask(n)
                return a - (1 << n) if s == "s" and n and a >> (n - 1) else a

            rows.append(Row(f"szext.{mode}.{s}32 $d, $a, $b;", "b32", "b32 b32", mix(values(32), FIELDS), extend))
    run_rows(rows)


def test_byte_permutes():
    pairs = [(0x33221100, 0x77665544), (0x80FF7F01, 0xFE8100C3)]

    def bytes_of(a, b):
        return [(b << 32 | a) >> (8 * k) & 255 for k in range(8)]

    def generic(a, b, c):
        out = 0
        for k in range(4):
            pick = c >> (4 * k) & 15
            byte = bytes_of(a, b)[pick & 7]
            out |= (255 * (byte >> 7) if pick & 8 else byte) << (8 * k)
        return out

    selectors = [0x3210, 0x7654, 0x0123, 0xFEDC, 0x89AB, 0x5410, 0x1032, 0xFFFF0000, 0x4444, 0xC480]
    rows = [Row("prmt.b32 $d, $a, $b, $c;", "b32", "b32 b32 b32", [(*p, s) for p in pairs for s in selectors], generic)]
    modes = {  # selection of bytes 3, 2, 1, 0 by the low bits of c: the manual's table
        "f4e": [(3, 2, 1, 0), (4, 3, 2, 1), (5, 4, 3, 2), (6, 5, 4, 3)],
        "b4e": [(5, 6, 7, 0), (6, 7, 0, 1), (7, 0, 1, 2), (0, 1, 2, 3)],
        "rc8": [(0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)],
        "ecl": [(3, 2, 1, 0), (3, 2, 1, 1), (3, 2, 2, 2), (3, 3, 3, 3)],
        "ecr": [(0, 0, 0, 0), (1, 1, 1, 0), (2, 2, 1, 0), (3, 2, 1, 0)],
        "rc16": [(1, 0, 1, 0), (3, 2, 3, 2), (1, 0, 1, 0), (3, 2, 3, 2)],
    }
    for mode, table in modes.items():
        rows.append(
            Row(
                f"prmt.b32.{mode} $d, $a, $b, $c;",
                "b32",
                "b32 b32 b32",
                [(*p, s) for p in pairs for s in range(8)],
                lambda a, b, c, t=table: sum(bytes_of(a, b)[t[c & 3][3 - k]] << (8 * k) for k in range(4)),
            )
        )
    run_rows(rows)


def test_carries_run_through_a_chain():
    """add.cc/addc, sub.cc/subc, mad.cc/madc over two and three words."""
    rows = []
    for n in (32, 64):
        reg, many = f"b{n}", mix(values(n), values(n), values(n), values(n), limit=300)
        src = f"{reg} {reg} {reg} {reg}"
        m = mask(n)

        def both(x, n=n):
            return x & mask(n), x >> n & mask(n)

        rows.append(
            Row(
                f"add.cc.u{n} $d, $a, $c; addc.u{n} $q, $b, $e;",
                f"{reg} {reg}",
                src,
                many,
                lambda a, b, c, e, n=n, f=both: f((b << n | a) + (e << n | c)),
            )
        )
        rows.append(
            Row(
                f"sub.cc.u{n} $d, $a, $c; subc.u{n} $q, $b, $e;",
                f"{reg} {reg}",
                src,
                many,
                lambda a, b, c, e, n=n, f=both: f((b << n | a) - (e << n | c)),
            )
        )
        zero = "0x0"
        rows.append(  # the carry out of addc.cc and of subc.cc
            Row(
                f"add.cc.u{n} $d, $a, $c; addc.cc.u{n} $d, $b, $e; addc.u{n} $q, {zero}, {zero};",
                f"{reg} {reg}",
                src,
                many,
                lambda a, b, c, e, n=n, m=m: (
                    ((b << n | a) + (e << n | c)) >> n & m,
                    ((b << n | a) + (e << n | c)) >> 2 * n,
                ),
            )
        )
        rows.append(
            Row(
                f"sub.cc.u{n} $d, $a, $c; subc.cc.u{n} $d, $b, $e; subc.u{n} $q, {zero}, {zero};",
                f"{reg} {reg}",
                src,
                many,
                lambda a, b, c, e, n=n, m=m: (
                    ((b << n | a) - (e << n | c)) >> n & m,
                    ((b << n | a) - (e << n | c)) >> 2 * n,
                ),
            )
        )
        rows.append(
            Row(
                f"mad.lo.cc.u{n} $d, $a, $b, $c; madc.hi.u{n} $q, $a, $b, $e;",
                f"{reg} {reg}",
                src,
                many,
                lambda a, b, c, e, n=n, f=both: f(a * b + (e << n | c)),
            )
        )
        rows.append(
            Row(
                f"mad.hi.cc.u{n} $d, $a, $b, $c; madc.lo.cc.u{n} $d, $a, $b, $e; addc.u{n} $q, {zero}, {zero};",
                f"{reg} {reg}",
                src,
                many,
                lambda a, b, c, e, n=n, m=m: (
                    (a * b + e + (((a * b >> n) + c) >> n)) & m,
                    ((a * b & m) + e + (((a * b >> n) + c) >> n)) >> n,
                ),
            )
        )
    run_rows(rows)
