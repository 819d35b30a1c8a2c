"""Loads and stores of every type, space and vector; addresses; atomics."""

import numpy as np
import pytest
from exact import FORMATS, NAN, arithmetic, decode, edges
from harness import mix, run_text
from test_rows_integer import as_kind, values

TYPES = ["b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "b64", "u64", "s64", "f32", "f64"]
RNG = np.random.default_rng(7)


def nbytes(kind):
    return int(kind[1:]) // 8


def registers(kind, n):
    prefix = "%f" if kind == "f32" else "%g" if kind == "f64" else {1: "%h", 2: "%h", 4: "%r", 8: "%d"}[nbytes(kind)]
    names = [f"{prefix}{20 + k}" for k in range(n)]
    return names[0] if n == 1 else "{" + ", ".join(names) + "}"


SPACES = {
    "global": ("", "mov.u64 %d3, %out; add.u64 %d3, %d3, 4096;", "%d3"),
    "shared": (".shared .align 16 .b8 area[1024];", "mov.u64 %d3, area;", "%d3"),
    "local": (".local .align 16 .b8 area[1024];", "mov.u64 %d3, area;", "%d3"),
    "shared (32-bit address)": (".shared .align 16 .b8 area[1024];", "mov.u32 %r3, area;", "%r3"),
    "generic global": ("", "mov.u64 %d3, %out; add.u64 %d3, %d3, 4096;", "%d3"),
    "generic shared": (".shared .align 16 .b8 area[1024];", "mov.u64 %d4, area; cvta.shared.u64 %d3, %d4;", "%d3"),
    "generic local": (".local .align 16 .b8 area[1024];", "mov.u64 %d4, area; cvta.local.u64 %d3, %d4;", "%d3"),
}


@pytest.mark.parametrize("space", list(SPACES))
@pytest.mark.parametrize("order", ["row", "scattered", "odd lanes"])
def test_what_is_stored_is_loaded(space, order):
    """Through the space and back, by every type and vector; half of the lanes at other lanes' places."""
    decls, setup, base = SPACES[space]
    suffix = "" if space.startswith("generic") else f".{space.split()[0]}"
    lane = {
        "row": "mov.u32 %r4, %tid;",
        "scattered": "mad.lo.u32 %r4, %tid, 7, 3; and.b32 %r4, %r4, 31;",
        "odd lanes": "mov.u32 %r4, %tid;",
    }
    body = [setup, lane[order], "and.b32 %r5, %tid, 1; setp.eq.u32 %p1, %r5, 0;"]
    body += ["@%p1 bra $END;"] if order == "odd lanes" else []
    add = f"mad.lo.u32 %r6, %r4, {{}}, {base};" if base == "%r3" else f"mad.wide.u32 %d6, %r4, {{}}, {base};"
    where = "%r6" if base == "%r3" else "%d6"
    at, places = 0, []
    for kind in TYPES:
        for n in (1, 2, 4):
            size = nbytes(kind) * n
            if size > 16:
                continue
            v, t = f".v{n}" if n > 1 else "", registers(kind, n)
            body.append(
                f"mad.wide.u32 %d7, %tid, {size}, %in; mad.wide.u32 %d8, %tid, {size}, %out; {add.format(size)}"
            )
            body.append(f"ld.global{v}.{kind} {t}, [%d7+{at}];")
            body.append(f"st{suffix}{v}.{kind} [{where}], {t};")
            body.append(f"ld{suffix}{v}.{kind} {t}, [{where}];")
            body.append(f"st.global{v}.{kind} [%d8+{8192 + at}], {t};")
            if ("global" in space and "local" not in space) or "shared" in space:
                body.append("bar.warp.sync 0xffffffff;" if order != "odd lanes" else "bar.warp.sync 0xaaaaaaaa;")
            places.append((at, size))
            at += 32 * size
    data = RNG.integers(0, 256, at, np.uint8).tobytes()
    out, result = run_text("\n".join([*body, "$END:"]), inputs=data, out_bytes=8192 + at, decls=decls)
    assert result.fault is None, result.fault
    assert not result.findings, result.findings
    for start, size in places:
        for k in range(32):
            want = data[start + k * size : start + (k + 1) * size] if order != "odd lanes" or k & 1 else bytes(size)
            got = out[8192 + start + k * size : 8192 + start + (k + 1) * size]
            assert got == want, (start, size, k)


def test_small_loads_extend_into_wider_registers():
    """ld.s8 into 16, 32 and 64 bits extends by the sign, ld.u8 and ld.b8 by zeros; stores cut."""
    data = bytes(RNG.integers(0, 256, 32 * 8, np.uint8))
    body, want, at = [], [], 0
    for kind in TYPES[:9]:
        for reg, n in (("%h1", 2), ("%r1", 4), ("%d1", 8)):
            if n < nbytes(kind):
                continue
            body.append(f"mad.wide.u32 %d7, %tid, 8, %in; mad.wide.u32 %d8, %tid, {n}, %out;")
            body.append(f"ld.global.{kind} {reg}, [%d7]; st.global.b{8 * n} [%d8+{at}], {reg};")
            for k in range(32):
                x = as_kind(int.from_bytes(data[8 * k : 8 * k + nbytes(kind)], "little"), kind)
                want.append((x & ((1 << 8 * n) - 1)).to_bytes(n, "little"))
            at += 32 * n
    for kind in ("b8", "u8", "s16", "b32"):
        body.append(f"mad.wide.u32 %d7, %tid, 8, %in; mad.wide.u32 %d8, %tid, {nbytes(kind)}, %out;")
        body.append(f"ld.global.b64 %d1, [%d7]; st.global.{kind} [%d8+{at}], %d1;")
        want += [data[8 * k : 8 * k + nbytes(kind)] for k in range(32)]
        at += 32 * nbytes(kind)
    out, result = run_text("\n".join(body), inputs=data, out_bytes=at)
    assert result.fault is None
    assert out == b"".join(want)


def test_cache_and_scope_words_are_read():
    loads = [
        "ca",
        "cg",
        "cs",
        "cv",
        "lu",
        "nc",
        "L1::no_allocate",
        "L1::evict_last",
        "L2::128B",
        "nc.L1::no_allocate.L2::256B",
    ]
    ops = [f"ld.global.{m}.b32" for m in loads]
    ops += [
        "ld.volatile.global.b32",
        "ld.relaxed.gpu.global.b32",
        "ld.acquire.sys.global.b32",
        "ld.weak.global.b32",
        "ldu.global.b32",
    ]
    ops += ["ld.mmio.relaxed.sys.global.b32", "ld.relaxed.cta.b32", "ld.global.nc.u32"]
    stores = [
        "st.global.wb.b32",
        "st.global.cg.b32",
        "st.global.cs.b32",
        "st.global.wt.b32",
        "st.volatile.global.b32",
        "st.relaxed.gpu.global.b32",
    ]
    stores += ["st.release.sys.global.b32", "st.weak.global.b32", "st.global.L1::no_allocate.b32"]
    body = ["mad.wide.u32 %d1, %tid, 4, %in; mad.wide.u32 %d2, %tid, 4, %out; mov.b32 %r2, 0;"]
    body += [f"{op} %r1, [%d1]; add.u32 %r2, %r2, %r1;" for op in ops]
    body += [f"{op} [%d2+{128 * k}], %r2;" for k, op in enumerate(stores)]
    data = RNG.integers(0, 1 << 32, 32, np.uint32)
    out, result = run_text("\n".join(body), inputs=data.tobytes(), out_bytes=128 * len(stores))
    assert result.fault is None
    assert (np.frombuffer(out, np.uint32).reshape(len(stores), 32) == data * np.uint32(len(ops))).all()


def test_constants_and_variables():
    """.const and .global arrays, initial values, addresses in initial values, a fixed and a moving index."""
    prelude = (
        ".const .align 8 .b32 c[5] = {1, 0x10, -1, 0f3F800000, 7};\n.global .align 2 .u16 g[4] = {1, 2, 3};\n"
        ".global .align 8 .u64 p[2] = {g, generic(g)+4};\n.const .align 1 .b8 s[4] = {65, 66, 67, 68};\n"
    )
    body = (
        "mad.wide.u32 %d1, %tid, 4, %out; mov.u32 %r9, 0; ld.const.u32 %r1, [c+4]; ld.const.u32 %r2, [c+8]; ld.const.f32 %f1, [c+12];\n"
        "and.b32 %r3, %tid, 3; mov.u64 %d2, c; mad.wide.u32 %d3, %r3, 4, %d2; ld.const.u32 %r4, [%d3];\n"
        "mov.u64 %d4, s; cvta.const.u64 %d4, %d4; cvt.u64.u32 %d5, %r3; add.u64 %d4, %d4, %d5; ld.u8 %r5, [%d4];\n"
        "ld.global.u64 %d6, [p+8]; ld.global.u16 %r6, [%d6]; ld.global.u16 %r7, [g+6];\n"
        "mov.b32 %r8, %f1;\n"
        + "".join(f"st.global.u32 [%d1+{128 * k}], %r{r};\n" for k, r in enumerate((1, 2, 8, 4, 5, 6, 7)))
    )
    out, result = run_text(body, out_bytes=128 * 7, prelude=prelude)
    assert result.fault is None
    got = np.frombuffer(out, np.uint32).reshape(7, 32)
    lane = np.arange(32) & 3
    want = [16, 0xFFFFFFFF, 0x3F800000, np.array([1, 16, 0xFFFFFFFF, 0x3F800000])[lane], 65 + lane, 3, 0]
    for row, w in zip(got, want, strict=True):
        assert (row == w).all()


@pytest.mark.parametrize("index", ["%tid", "%r1"])
def test_a_constant_index_out_of_bounds_is_a_fault(index):
    """By an index of each lane and by one of the whole warp."""
    body = f"mov.u32 %r1, %ctaid.x; add.u32 %r2, {index}, 1000000; mov.u64 %d2, c; mad.wide.u32 %d3, %r2, 4, %d2; ld.const.u32 %r4, [%d3];"
    _, result = run_text(body, out_bytes=8, prelude=".const .align 4 .b32 c[4];\n")
    assert result.fault is not None and result.fault.kind == "illegal_address"


@pytest.mark.parametrize(
    ("access", "kind"),
    [
        ("ld.global.u32 %r1, [%in+4096];", "illegal_address"),
        ("st.global.u32 [%out+-4], %tid;", "illegal_address"),
        ("ld.global.u32 %r1, [%in+2];", "misaligned"),
        ("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%in+8];", "misaligned"),
        ("mov.b64 %d1, 0; ld.u32 %r1, [%d1];", "illegal_address"),
        ("ld.shared.u32 %r1, [area+64];", "illegal_address"),
        ("st.local.u64 [spot+12], %in;", "misaligned"),
        ("st.local.u32 [spot+16], %tid;", "illegal_address"),
        ("atom.global.add.u32 %r1, [%in+4096], 1;", "illegal_address"),
        ("red.shared.add.u64 [area+4], %in;", "misaligned"),
    ],
)
def test_wild_and_misaligned_accesses_fault(access, kind):
    _, result = run_text(access, out_bytes=8, decls=".shared .align 16 .b8 area[64]; .local .align 16 .b8 spot[16];")
    assert result.fault is not None and result.fault.kind == kind


def test_spaces_of_addresses():
    body = "mov.u64 %d1, area; cvta.shared.u64 %d2, %d1; mov.u64 %d3, spot; cvta.local.u64 %d4, %d3; cvta.global.u64 %d5, %in;\n"
    checks, n = [], 0
    for d, space in ((2, "shared"), (4, "local"), (5, "global")):
        for asked in ("shared", "local", "global", "const"):
            body += f"isspacep.{asked} %p1, %d{d}; selp.u32 %r1, 1, 0, %p1; st.global.u32 [%out+{4 * n}], %r1;\n"
            checks.append(int(space == asked))
            n += 1
    body += "cvta.to.shared.u64 %d6, %d2; setp.eq.u64 %p1, %d6, %d1; selp.u32 %r1, 1, 0, %p1;\n"
    body += f"cvta.to.local.u64 %d7, %d4; setp.eq.and.u64 %p1, %d7, %d3, %p1; selp.u32 %r1, 1, 0, %p1; st.global.u32 [%out+{4 * n}], %r1;"
    decls = ".shared .align 16 .b8 area[64]; .local .align 16 .b8 spot[16];"
    out, result = run_text(body, out_bytes=4 * n + 4, decls=decls, block=1)
    assert result.fault is None
    assert np.frombuffer(out, np.uint32).tolist() == [*checks, 1]


def test_special_registers():
    names = [
        "tid.x",
        "tid.y",
        "tid.z",
        "ntid.x",
        "ntid.y",
        "ntid.z",
        "ctaid.x",
        "ctaid.y",
        "nctaid.x",
        "nctaid.y",
        "laneid",
        "warpid",
    ]
    names += [
        "nwarpid",
        "lanemask_eq",
        "lanemask_lt",
        "lanemask_le",
        "lanemask_gt",
        "lanemask_ge",
        "clock_hi",
        "globaltimer_hi",
    ]
    body = "mov.u32 %r1, %tid.y; mad.lo.u32 %r2, %r1, 8, %tid.x; mov.u32 %r3, %ctaid.x; mad.lo.u32 %r2, %r3, 40, %r2;\n"
    body = body.replace("%tid.x", "%tid")
    body += f"mad.wide.u32 %d1, %r2, {4 * len(names)}, %out;\n"
    body += "".join(f"mov.u32 %r4, %{n}; st.global.u32 [%d1+{4 * k}], %r4;\n" for k, n in enumerate(names))
    out, result = run_text(body, out_bytes=80 * 4 * len(names), block=(8, 5, 1), grid=(2, 1, 1))
    assert result.fault is None
    got = np.frombuffer(out, np.uint32).reshape(80, -1)
    for k in range(80):
        b, t = divmod(k, 40)
        lane = t & 31
        want = [t % 8, t // 8, 0, 8, 5, 1, b, 0, 2, 1, lane, t // 32, 2, 1 << lane, (1 << lane) - 1, (2 << lane) - 1]
        want += [~((2 << lane) - 1) & 0xFFFFFFFF, ~((1 << lane) - 1) & 0xFFFFFFFF, 0, 0]
        assert got[k].tolist() == want


# ---------------------------------------------------------------- atomics
def combine(op, kind, space):
    """new = f(old, value): what the operation leaves."""
    if kind[0] in "fb" and op == "add":
        names = {"f16x2": "f16", "bf16x2": "bf16"}
        ftz = kind == "f32" and space == "global"  # PTX ISA, atom: .add.f32 flushes subnormals in global memory
        add = arithmetic("add", names.get(kind, kind), ftz=ftz)
        if kind in names:

            def both(a, b):
                parts = [add(a >> s & 0xFFFF, b >> s & 0xFFFF) for s in (0, 16)]
                return None if any(callable(p) for p in parts) else parts[0] | parts[1] << 16

            return both
        return lambda a, b: None if callable(add(a, b)) else add(a, b)
    return {
        "add": lambda a, b: a + b,
        "min": lambda a, b: min(a, b, key=lambda x: as_kind(x, kind)),
        "max": lambda a, b: max(a, b, key=lambda x: as_kind(x, kind)),
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "inc": lambda a, b: 0 if a >= b else a + 1,
        "dec": lambda a, b: b if a == 0 or a > b else a - 1,
        "exch": lambda a, b: b,
    }[op]


ATOMICS = {
    "add": "u32 s32 u64 f32 f64 f16 f16x2 bf16 bf16x2",
    "min": "u32 s32 u64 s64",
    "max": "u32 s32 u64 s64",
    "and": "b32 b64",
    "or": "b32 b64",
    "xor": "b32 b64",
    "inc": "u32",
    "dec": "u32",
    "exch": "b32 b64",
}


def patterns(kind):
    if kind in FORMATS:
        return [b for b in edges(kind, extra=10) if decode(b, kind).what != NAN]
    if kind.endswith("16x2"):
        some = patterns(kind[:-2])
        return [a | b << 16 for a, b in zip(some, some[5:] + some[:5], strict=True)]
    return values(int(kind[1:]))


@pytest.mark.parametrize("space", ["global", "shared", "generic"])
def test_atomics_of_every_operation_and_type(space):
    """32 places, 32 lanes: what was there comes back, what must be there is left; red leaves the same."""
    from harness import bits_of

    body, data, at, checks = [], b"", 0, []
    for op, kinds in ATOMICS.items():
        for kind in kinds.split():
            n = bits_of(kind) // 8
            noftz = ".noftz" if "16" in kind and kind[0] in "fb" else ""
            pairs = mix(patterns(kind), patterns(kind), limit=32, seed=at)
            if kind in FORMATS and op == "add":  # subnormal operands, and a subnormal sum of normal ones
                least = 1 << FORMATS[kind].mbits
                pairs = [
                    (1, 1),
                    (least - 1, 1),
                    (least + 1, least | FORMATS[kind].sign),
                    (0, 3),
                    (FORMATS[kind].biggest, 1),
                    *pairs,
                ]
            pairs = (pairs * 32)[:32]
            reg = {"f32": "%f", "f64": "%g"}.get(kind, {2: "%h", 4: "%r", 8: "%d"}[n] + "2")
            x, y = (f"{reg}1", f"{reg}2") if kind in ("f32", "f64") else (f"{reg}3", f"{reg}4")
            body.append(
                "mad.wide.u32 %d7, %tid, 8, %in; mad.wide.u32 %d8, %tid, 8, %out; mad.wide.u32 %d9, %tid, 8, %d10;"
            )
            t = kind if kind in ("f32", "f64") else f"b{8 * n}"
            where = f"%d8+{at + 512}" if space != "shared" else "%d9"
            st, atom = (f"st.{space}", f"atom.{space}") if space != "generic" else ("st", "atom")
            body.append(f"ld.global.{t} {x}, [%d7+{at}]; ld.global.{t} {y}, [%d7+{at + 256}];")
            body.append(
                f"{st}.{t} [{where}], {x}; {atom}.{op}{noftz}.{kind} {x}, [{where}], {y}; st.global.{t} [%d8+{at}], {x};"
            )
            if space == "shared":
                body.append(f"ld.shared.{t} {x}, [%d9]; st.global.{t} [%d8+{at + 512}], {x};")
            body.append(f"ld.global.{t} {x}, [%d7+{at}];")
            if op != "exch":
                scope = {"u32": ".relaxed.gpu", "b32": ".release.sys", "u64": ".relaxed.cta"}.get(kind, "")
                where = f"%d8+{at + 256}" if space != "shared" else "%d9"
                red = f"red{scope}.{space}" if space != "generic" else f"red{scope}"
                body.append(f"{st}.{t} [{where}], {x}; {red}.{op}{noftz}.{kind} [{where}], {y};")
                if space == "shared":
                    body.append(f"ld.shared.{t} {x}, [%d9]; st.global.{t} [%d8+{at + 256}], {x};")
            data += (
                b"".join(a.to_bytes(8, "little") for a, _ in pairs)
                + b"".join(b.to_bytes(8, "little") for _, b in pairs)
                + bytes(256)
            )
            checks.append((op, kind, at, n, pairs))
            at += 768
    body.insert(0, "mov.u64 %d10, area;")
    decls = ".shared .align 16 .b8 area[256];"
    out, result = run_text("\n".join(body), inputs=data, out_bytes=at, decls=decls)
    assert result.fault is None, result.fault
    assert not result.findings, result.findings
    for op, kind, start, n, pairs in checks:
        fn = combine(op, kind, space if space != "generic" else "global")
        for k, (a, b) in enumerate(pairs):
            old, red, new = (
                int.from_bytes(out[start + d + 8 * k : start + d + 8 * k + n], "little") for d in (0, 256, 512)
            )
            want = fn(a, b)
            assert old == a, (op, kind, hex(a), hex(b), hex(old))
            if want is not None:
                want &= (1 << 8 * n) - 1
                assert new == want, (op, kind, hex(a), hex(b), hex(new), hex(want))
                assert op == "exch" or red == want, ("red", op, kind, hex(a), hex(b), hex(red), hex(want))


def test_compare_and_swap():
    body, at = [], 0
    data = b"".join((k % 3).to_bytes(8, "little") for k in range(32))
    for kind, reg in (("b16", "%h"), ("b32", "%r"), ("b64", "%d")):
        body.append(
            f"mad.wide.u32 %d7, %tid, 8, %in; mad.wide.u32 %d8, %tid, 8, %out; ld.global.{kind} {reg}21, [%d7];"
        )
        body.append(f"st.global.{kind} [%d8+{at + 256}], {reg}21; mov.{kind} {reg}22, 1; mov.{kind} {reg}23, 77;")
        body.append(
            f"atom.global.cas.{kind} {reg}24, [%d8+{at + 256}], {reg}22, {reg}23; st.global.{kind} [%d8+{at}], {reg}24;"
        )
        at += 512
    out, result = run_text("\n".join(body), inputs=data, out_bytes=at)
    assert result.fault is None
    for part in range(3):
        words = np.frombuffer(out, np.uint64)[64 * part : 64 * part + 64]
        assert words[:32].tolist() == [k % 3 for k in range(32)]
        assert words[32:].tolist() == [77 if k % 3 == 1 else k % 3 for k in range(32)]


def test_all_lanes_at_one_place():
    """Each lane sees what another left: the old values of an addition of 1 are all different."""
    body = (
        "mov.u64 %d1, area; setp.eq.u32 %p1, %tid, 0; @%p1 st.shared.u32 [%d1], 0; bar.sync 0;"
        "atom.shared.add.u32 %r1, [%d1], 1; atom.global.add.u32 %r2, [%out], 1; atom.global.inc.u32 %r3, [%out+4], 9;\n"
        "red.global.max.u32 [%out+8], %tid; bar.sync 0; ld.shared.u32 %r4, [%d1]; mad.wide.u32 %d2, %tid, 16, %out;\n"
        "st.global.u32 [%d2+64], %r1; st.global.u32 [%d2+68], %r2; st.global.u32 [%d2+72], %r3; st.global.u32 [%d2+76], %r4;"
    )
    out, result = run_text(body, out_bytes=64 + 16 * 96, block=96, decls=".shared .align 4 .b8 area[4];")
    assert result.fault is None and not result.findings
    head, rest = np.frombuffer(out, np.uint32)[:16], np.frombuffer(out, np.uint32)[16:].reshape(96, 4)
    assert head[:3].tolist() == [96, 96 % 10, 95]
    assert sorted(rest[:, 0]) == sorted(rest[:, 1]) == list(range(96))
    assert sorted(rest[:, 2]) == sorted(k % 10 for k in range(96))
    assert (rest[:, 3] == 96).all()
