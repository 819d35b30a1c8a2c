"""Rows: an instruction, its operands as bit patterns, and what it must give.

`run_rows` builds one kernel for each row and runs the instruction three times for every case: with operands that differ
from lane to lane, with operands that are the same in the whole warp (the compiler keeps those as scalars), and with
either, row by row in turn, in a branch that only odd lanes take.
"""

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from string import Template

import numpy as np

from grader.vgpu.machine import LaunchOptions, Memory, Module, launch

HEADER = ".version 8.6\n.target sm_90a\n.address_size 64\n"
BITS = {"pred": 8, "f16": 16, "bf16": 16, "f32": 32, "f64": 64, "f16x2": 32, "bf16x2": 32}
REGISTER = {"pred": "pred", "f32": "f32", "f64": "f64"}
SENTINEL = 0x5A5A5A5A5A5A5A5A  # what lanes that do not run the instruction must keep
QUIET = LaunchOptions(racecheck=False, initcheck=False, deadline=60.0)
VARIANTS = (
    "each lane its own operands",
    "warp-uniform operands",
    "own operands, odd lanes",
    "uniform operands, odd lanes",
)


def bits_of(kind: str) -> int:
    """Width of a PTX type in bits."""
    return BITS.get(kind) or int("".join(c for c in kind if c.isdigit()))


class Nan:
    """Any NaN of a type: payloads and signs of NaNs are left open by PTX."""

    def __init__(self, kind):
        self.inf = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000, "f64": 0x7FF0000000000000}[kind]
        self.top = 1 << (bits_of(kind) - 1)

    def __call__(self, got):
        return got & (self.top - 1) > self.inf

    def __repr__(self):
        return "any NaN"


def f32(x: float) -> int:
    """Bits of the nearest f32."""
    return struct.unpack("<I", struct.pack("<f", x))[0]


def f64(x: float) -> int:
    return struct.unpack("<Q", struct.pack("<d", x))[0]


def f32_value(bits: int) -> float:
    return struct.unpack("<f", struct.pack("<I", bits))[0]


@dataclass(frozen=True)
class Row:
    """One instruction and its cases.

    ptx names the destinations $d (and $q) and the sources $a, $b, $c, $e. want(*operands) gives the expected bits, a
    function that accepts them, or a tuple of those for two destinations.
    """

    ptx: str
    dst: str  # kinds, separated by spaces
    src: str
    cases: list
    want: Callable


def _wide(kind):
    return max(16, bits_of(kind))


def _load(space, reg, kind, address):
    bits = bits_of(kind)
    if kind == "pred":
        return f"ld.{space}.u8 %h, [{address}]; setp.ne.u16 {reg}, %h, 0;"
    sign = kind[0] if kind[0] in "su" and bits < 16 else "f" if kind in ("f32", "f64") else "b"
    return f"ld.{space}.{sign}{bits} {reg}, [{address}];"


def kernel_text(name: str, row: Row, uniform: bool) -> str:
    """An entry that runs `row` for case (block + lane), for case (block), and for one of these in odd lanes only."""
    src, dst = row.src.split(), row.dst.split()
    out = [f".visible .entry {name}(.param .u64 {name}_in, .param .u64 {name}_out)\n{{"]
    out.append("  .reg .pred %odd; .reg .b16 %h; .reg .b32 %t, %l, %k; .reg .b64 %in, %o, %x, %y;")
    for v in "ls":
        for j, kind in enumerate(src):
            out.append(f"  .reg .{REGISTER.get(kind, f'b{_wide(kind)}')} %{v}{j};")
    for v in range(3):
        for j, kind in enumerate(dst):
            out.append(f"  .reg .{REGISTER.get(kind, f'b{_wide(kind)}')} %d{v}_{j};")
    step = 8 * len(src)
    out.append(f"  ld.param.u64 %in, [{name}_in]; ld.param.u64 %o, [{name}_out];")
    out.append("  mov.u32 %t, %ctaid.x; mov.u32 %l, %tid.x; add.u32 %k, %t, %l;")
    out.append(f"  mad.wide.u32 %x, %k, {step}, %in; mad.wide.u32 %y, %t, {step}, %in;")
    for j, kind in enumerate(src):
        out.append("  " + _load("global", f"%l{j}", kind, f"%x+{8 * j}"))
        out.append("  " + _load("const", f"%s{j}", kind, f"%y+{8 * j}"))
    out.append("  and.b32 %k, %l, 1; setp.ne.u32 %odd, %k, 0;")

    def instruction(v):
        operands = "ls"[v == 1 or (v == 2 and uniform)]
        names = {n: f"%{operands}{j}" for j, n in zip(range(len(src)), "abce", strict=False)}
        names |= {n: f"%d{v}_{j}" for j, n in zip(range(len(dst)), "dq", strict=False)}
        return "  " + Template(row.ptx).substitute(names)

    out += [instruction(0), instruction(1)]
    for j, kind in enumerate(dst):
        d = f"%d2_{j}"
        if kind == "pred":
            out.append(f"  setp.eq.u32 {d}, 0, 0;")
        else:
            pattern = f"0x{SENTINEL & (1 << _wide(kind)) - 1:x}"
            pattern = {"f32": "0f5A5A5A5A", "f64": "0d5A5A5A5A5A5A5A5A"}.get(kind, pattern)
            out.append(f"  mov.{REGISTER.get(kind, f'b{_wide(kind)}')} {d}, {pattern};")
    out += [f"  @!%odd bra $even_{name};", instruction(2), f"$even_{name}:"]
    out.append(f"  mad.wide.u32 %o, %t, {3 * len(dst) * 256}, %o; mad.wide.u32 %o, %l, 8, %o;")
    for v in range(3):
        for j, kind in enumerate(dst):
            d, at = f"%d{v}_{j}", 256 * (v * len(dst) + j)
            if kind == "pred":
                out.append(f"  selp.b32 %k, 1, 0, {d}; st.global.b8 [%o+{at}], %k;")
            else:
                out.append(f"  st.global.{REGISTER.get(kind, f'b{_wide(kind)}')} [%o+{at}], {d};")
    out.append("  ret;\n}")
    return "\n".join(out)


def module_text(rows: list[Row]) -> str:
    return HEADER + "\n".join(kernel_text(f"row{n}", row, bool(n & 1)) for n, row in enumerate(rows))


def run_rows(rows: list[Row]):
    """Run all rows. Raises AssertionError that lists what came out otherwise than wanted, a few lines a row."""
    memory = Memory()
    module = Module(module_text(rows), memory)
    wrong = []
    for n, row in enumerate(rows):
        wrong += _run_row(memory, module.kernels[f"row{n}"], row, bool(n & 1))
    assert not wrong, f"{len(wrong)} mismatches\n" + "\n".join(wrong[:40])


def _run_row(memory, kernel, row, uniform):
    cases, dst = list(row.cases), row.dst.split()
    count = len(cases)
    packed = np.array([cases[k % count] for k in range(count + 32)], np.uint64)
    source = memory.allocate(packed.nbytes)
    memory.view(source.address, packed.nbytes)[:] = packed.view(np.uint8).ravel()
    target = memory.allocate(count * 3 * len(dst) * 256)
    result = launch(
        kernel, (count, 1, 1), (32, 1, 1), struct.pack("<qq", source.address, target.address), options=QUIET
    )
    assert result.fault is None, f"{row.ptx}: {result.fault}"
    got = memory.view(target.address, target.nbytes).view(np.uint64).reshape(count, 3, len(dst), 32)
    wanted = [row.want(*case) for case in cases]
    wanted = [w if isinstance(w, tuple) else (w,) for w in wanted]
    wrong = []
    for j, kind in enumerate(dst):
        mask = (1 << (1 if kind == "pred" else _wide(kind))) - 1
        values = got[:, :, j, :] & np.uint64(mask)
        exact = np.array([0 if callable(w[j]) else int(w[j]) & mask for w in wanted], np.uint64)
        loose = [k for k in range(count) if callable(wanted[k][j])]
        block, lane = np.meshgrid(np.arange(count), np.arange(32), indexing="ij")
        for v in range(3):
            case = block if v == 1 or (v == 2 and uniform) else (block + lane) % count
            expected = exact[case]
            runs = (lane & 1 == 1) | (v < 2)
            expected = np.where(runs, expected, np.uint64((1 if kind == "pred" else SENTINEL) & mask))
            good = values[:, v, :] == expected
            for k in loose:
                for i, x in zip(*np.nonzero((case == k) & runs), strict=True):
                    good[i, x] = wanted[k][j](int(values[i, v, x]))
            bad = np.argwhere(~good)
            for i, x in bad[:3]:
                k = int(case[i, x])
                shown = ", ".join(f"{int(c):#x}" for c in cases[k])
                want = wanted[k][j] if callable(wanted[k][j]) else f"{int(wanted[k][j]) & mask:#x}"
                if not runs[i, x]:
                    want = "what it was"
                wrong.append(f"{row.ptx} [{VARIANTS[v]}, lane {x}] ({shown}): {int(values[i, v, x]):#x}, wanted {want}")
    memory.free(source.address)
    memory.free(target.address)
    return wrong


def run_text(
    body: str, *, inputs: bytes = b"", out_bytes: int, block=32, grid=1, decls="", options=None, shared=0, prelude=""
):
    """Run one kernel body. %in and %out hold the arrays' addresses, %tid the thread. -> (bytes, result)."""
    text = HEADER + prelude + (
        f".visible .entry k(.param .u64 k_in, .param .u64 k_out)\n{{\n.reg .pred %p<32>; .reg .b16 %h<32>;"
        f" .reg .b32 %r<64>; .reg .b64 %d<64>; .reg .f32 %f<32>; .reg .f64 %g<32>; .reg .b32 %tid;\n"
        f".reg .b64 %in, %out;\n{decls}\n"
        f"ld.param.u64 %in, [k_in]; ld.param.u64 %out, [k_out]; mov.u32 %tid, %tid.x;\n{body}\nret;\n}}\n"
    )  # fmt: skip
    memory = Memory()
    kernel = Module(text, memory).kernels["k"]
    source, target = memory.allocate(max(len(inputs), 8)), memory.allocate(out_bytes)
    memory.view(source.address, len(inputs) or 8)[:] = np.frombuffer(inputs or bytes(8), np.uint8)
    memory.written(source.address, source.nbytes)
    memory.view(target.address, out_bytes)[:] = 0
    memory.written(target.address, out_bytes)
    args = struct.pack("<qq", source.address, target.address)
    block, grid = (block, 1, 1) if isinstance(block, int) else block, (grid, 1, 1) if isinstance(grid, int) else grid
    result = launch(kernel, grid, block, args, shared=shared, options=options or LaunchOptions(deadline=60.0))
    return bytes(memory.view(target.address, out_bytes)), result


def close(kind: str, exact: float, *, relative: float = 0.0, absolute: float = 0.0):
    """Accepts bits whose value lies within a bound of `exact`; half a unit in the last place is always allowed."""

    def accepts(got):
        value = f32_value(got) if kind == "f32" else struct.unpack("<e", struct.pack("<H", got))[0]
        if math.isinf(exact) or (exact == 0.0 and not absolute):
            return value == exact
        return abs(value - exact) <= max(relative * abs(exact), absolute)

    accepts.__name__ = f"within {relative or absolute:g} of {exact!r}"
    return accepts


def mix(*lists, limit=400, seed=1):
    """Cases from the product of operand lists: all of it, or `limit` of it drawn with a fixed seed."""
    import itertools
    import random

    total = math.prod(len(x) for x in lists)
    if total <= limit:
        return list(itertools.product(*lists))
    rng = random.Random(seed)
    return [tuple(rng.choice(x) for x in lists) for _ in range(limit)]
