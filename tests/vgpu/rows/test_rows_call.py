"""Calls, parameters, labels in scopes, guards, and branches of every kind."""

import struct

import numpy as np
import pytest
from harness import HEADER, run_text

from grader.vgpu.machine import LaunchOptions, Memory, Module, ModuleError, launch

PLACES = "mad.wide.u32 %d1, %tid, 4, %in; mad.wide.u32 %d2, %tid, 4, %out; ld.global.u32 %r1, [%d1];\n"
FUNCTIONS = """
.func (.param .b32 retval) twice(.param .b32 x)
{ .reg .b32 %a; .reg .pred %p; ld.param.b32 %a, [x]; setp.gt.u32 %p, %a, 100; @%p bra BIG; add.u32 %a, %a, %a; st.param.b32 [retval], %a; ret;
BIG: st.param.b32 [retval], 7; ret; }
.func (.param .align 8 .b8 retval[16]) pair(.param .align 8 .b8 x[16], .param .b64 y)
{ .reg .b64 %a, %b; .reg .b32 %c; ld.param.b64 %a, [x]; ld.param.b32 %c, [x+8]; ld.param.b64 %b, [y]; add.u64 %a, %a, %b;
  st.param.b64 [retval], %a; { .param .b32 v; .param .b32 w; st.param.b32 [v], %c; call.uni (w), twice, (v); ld.param.b32 %c, [w]; }
  st.param.b32 [retval+8], %c; ret; }
.func nothing() { ret; }
.func (.param .v2 .b32 retval) unused(.param .b32 x);
""".replace(".func (.param .v2 .b32 retval) unused(.param .b32 x);\n", "")


def run(body, words=32, prelude=FUNCTIONS, block=32, decls=""):
    data = np.arange(block, dtype=np.uint32) * 7
    out, result = run_text(
        PLACES + body, inputs=data.tobytes(), out_bytes=4 * words, block=block, prelude=prelude, decls=decls
    )
    assert result.fault is None and not result.findings, (result.fault, result.findings)
    return np.frombuffer(out, np.uint32), data


def test_a_function_called_twice_and_in_a_branch():
    body = "{ .param .b32 x; .param .b32 y; st.param.b32 [x], %r1; call.uni (y), twice, (x); ld.param.b32 %r2, [y]; }\n"
    body += "and.b32 %r4, %tid, 1; setp.eq.u32 %p1, %r4, 0; @%p1 bra $END;\n"
    body += "{ .param .b32 x; .param .b32 y; st.param.b32 [x+0], %r2; call (y), twice, (x); ld.param.b32 %r2, [y+0]; }\n$END:\n"
    body += "call.uni nothing; call.uni nothing, (); st.global.u32 [%d2], %r2;"
    got, data = run(body)

    def twice(x):
        return 7 if x > 100 else 2 * x

    assert got.tolist() == [twice(twice(int(x))) if k & 1 else twice(int(x)) for k, x in enumerate(data)]


def test_structures_as_parameters_and_results():
    body = "cvt.u64.u32 %d3, %r1; { .param .align 8 .b8 x[16]; .param .b64 y; .param .align 8 .b8 z[16];\n"
    body += "st.param.b64 [x], %d3; st.param.b32 [x+8], %tid; st.param.b64 [y], 1000; call.uni (z), pair, (x, y);\n"
    body += "ld.param.b64 %d4, [z]; ld.param.b32 %r5, [z+8]; }\ncvt.u32.u64 %r6, %d4; mad.lo.u32 %r6, %r5, 65536, %r6; st.global.u32 [%d2], %r6;"
    got, data = run(body)
    assert got.tolist() == [int(x) + 1000 + 65536 * 2 * k for k, x in enumerate(data)]


def test_parts_of_a_parameter():
    """Bytes and halves of what was stored in a greater width, with their sign; bytes stored as such."""
    text = """.func (.param .b32 r) f(.param .b32 x, .param .align 8 .b8 y[8], .param .align 4 .b8 z[4])
    { .reg .b32 %a, %b, %c; .reg .b16 %h; ld.param.s8 %h, [x]; cvt.s32.s16 %a, %h; ld.param.u16 %h, [y+6]; cvt.u32.u16 %b, %h;
      ld.param.b32 %c, [y]; add.u32 %a, %a, %b; add.u32 %a, %a, %c; ld.param.s8 %b, [z]; ld.param.u8 %c, [z+1];
      add.u32 %a, %a, %b; add.u32 %a, %a, %c; st.param.b32 [r], %a; ret; }\n"""
    body = "{ .param .b32 x; .param .align 8 .b8 y[8]; .param .align 4 .b8 z[4]; .param .b32 r; mov.b64 %d3, 0x1234000000000100;\n"
    body += "st.param.b32 [x], %r1; st.param.b64 [y], %d3; st.param.b8 [z], 255; st.param.b8 [z+1], %r1;\n"
    body += "call.uni (r), f, (x, y, z); ld.param.b32 %r2, [r]; }\nst.global.u32 [%d2], %r2;"
    got, data = run(body, prelude=text)
    want = [
        (int(np.array(x).astype(np.uint8).view(np.int8)) + 0x1234 + 0x100 - 1 + (int(x) & 255)) & 0xFFFFFFFF
        for x in data
    ]
    assert got.tolist() == want


def test_a_parameter_pieced_together_from_smaller_ones_is_refused():
    """Rather than read as zero."""
    text = """.func (.param .b32 r) f(.param .align 4 .b8 x[8])
    { .reg .b32 %a; .reg .b64 %b; ld.param.b64 %b, [x]; cvt.u32.u64 %a, %b; st.param.b32 [r], %a; ret; }\n"""
    body = "{ .param .align 4 .b8 x[8]; .param .b32 y; st.param.b32 [x], %r1; st.param.b32 [x+4], %r1; call.uni (y), f, (x); ld.param.b32 %r2, [y]; }\n"
    with pytest.raises(ModuleError, match="width"):
        run(body, prelude=text)


def test_the_same_label_in_two_scopes():
    one = "{ .reg .pred p; setp.lt.u32 p, %r2, 10; @p bra DONE; sub.u32 %r2, %r2, 10; DONE: }\n"
    got, data = run("mov.u32 %r2, %r1;\n" + one + one + "st.global.u32 [%d2], %r2;")
    assert got.tolist() == [x if x < 10 else x - 10 if x - 10 < 10 else x - 20 for x in map(int, data)]


def test_a_loop_written_in_line_with_its_own_labels():
    body = "mov.u32 %r2, 0; mov.u32 %r3, 0;\n{\n.reg .pred more;\nAGAIN:\nadd.u32 %r2, %r2, %r3; add.u32 %r3, %r3, 1; setp.le.u32 more, %r3, %tid;\n"
    body += "@more bra.uni AGAIN;\nbra OUT;\nOUT:\n}\nst.global.u32 [%d2], %r2;".replace("bra.uni", "bra")
    got, _ = run(body)
    assert got.tolist() == [k * (k + 1) // 2 for k in range(32)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("brx.idx %r1, table;", "brx.idx"),
        ("wmma.load.a.sync.aligned.m16n16k16.row.f16 {%r1}, [%d1], 16;", "wmma"),
        ("tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%d1, {%r1}];", "coordinates"),
        ("mov.b128 %d1, {%d2, %d3};", "mov.b128"),
        ("wgmma.fence.sync.aligned;", "wgmma"),
        ("ld.global.b128 %d1, [%d2];", "b128"),
        ("cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2;", "e4m3x2"),
        ("bra NOWHERE;", "NOWHERE"),
        ("frobnicate.u32 %r1, %r2;", "frobnicate"),
        ("add.u32 %r1, %missing, 1;", "missing"),
        ("call.uni nowhere;", "nowhere"),
        ("lop3.b32 %r1, %r2, %r3, %r4, %r5;", "lop3"),
        ("add.s7 %r1, %r2, %r3;", "s7"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(text, words):
    with pytest.raises(ModuleError, match=words.replace(".", r"\.")):
        run(text)


def test_a_function_that_calls_itself():
    text = """.func (.param .b32 r) sum(.param .b32 n)
    { .reg .b32 %a, %b; .reg .pred %p; ld.param.b32 %a, [n]; setp.ne.u32 %p, %a, 0; @%p bra MORE; st.param.b32 [r], 0; ret;
    MORE: { .param .b32 x; .param .b32 y; sub.u32 %b, %a, 1; st.param.b32 [x], %b; call.uni (y), sum, (x); ld.param.b32 %b, [y]; }
      add.u32 %a, %a, %b; st.param.b32 [r], %a; ret; }\n"""
    body = "{ .param .b32 x; .param .b32 y; st.param.b32 [x], %tid; call.uni (y), sum, (x); ld.param.b32 %r2, [y]; }\n"
    got, _ = run(body + "st.global.u32 [%d2], %r2;", prelude=text)
    assert got.tolist() == [k * (k + 1) // 2 for k in range(32)]


def test_an_endless_recursion_ends_in_a_fault():
    _, result = run_text("call.uni f;", out_bytes=8, prelude=".func f() { call.uni f; ret; }\n")
    assert result.fault is not None and result.fault.kind == "illegal_address"


def test_parameters_of_every_width_and_their_bounds():
    text = HEADER + (
        ".visible .entry k(.param .u8 a, .param .s16 b, .param .f32 c, .param .f64 d, .param .align 16 .b8 e[24], .param .u64 out)\n"
        "{ .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .f32 %f1; .reg .f64 %g1; .reg .b16 %h<3>;\n"
        "ld.param.u64 %d1, [out]; ld.param.u8 %r1, [a]; ld.param.s16 %r2, [b]; ld.param.f32 %f1, [c]; ld.param.f64 %g1, [d];\n"
        "ld.param.v2.u32 {%r3, %r4}, [e+16]; ld.param.v2.b64 {%d2, %d3}, [e]; ld.param.s8 %r5, [a];\n"
        "st.global.u32 [%d1], %r1; st.global.u32 [%d1+4], %r2; st.global.f32 [%d1+8], %f1; st.global.f64 [%d1+16], %g1;\n"
        "st.global.v2.u32 [%d1+24], {%r3, %r4}; st.global.v2.b64 [%d1+32], {%d2, %d3}; st.global.u32 [%d1+12], %r5; ret; }\n"
    )
    memory = Memory()
    kernel = Module(text, memory).kernels["k"]
    assert kernel.params == [(0, 1), (2, 2), (4, 4), (8, 8), (16, 24), (40, 8)]
    out = memory.allocate(48)
    args = struct.pack("<BxhfdqqIIq", 200, -5, 1.5, 2.25, 11, 12, 13, 14, out.address)
    result = launch(kernel, (1, 1, 1), (1, 1, 1), args, options=LaunchOptions())
    assert result.fault is None
    got = struct.unpack("<IifidIIqq", memory.view(out.address, 48).tobytes())
    assert got == (200, -5, 1.5, 200 - 256, 2.25, 13, 14, 11, 12)
    wild = text.replace("[e+16]", "[e+20]")
    with pytest.raises(ModuleError, match="past the end"):
        Module(wild, memory).kernels["k"].code()


def test_a_guarded_exit_and_a_trap():
    got, _ = run(
        "and.b32 %r4, %tid, 3; setp.eq.u32 %p1, %r4, 2; @%p1 exit; setp.eq.u32 %p2, %r4, 1; @%p2 ret; st.global.u32 [%d2], 5;"
    )
    assert got.tolist() == [0 if k % 4 in (1, 2) else 5 for k in range(32)]
    _, result = run_text("setp.eq.u32 %p1, %tid, 9; @!%p1 bra $END; trap;\n$END:", out_bytes=8)
    assert result.fault is not None and result.fault.kind == "trap" and result.fault.thread[0] == 9


def test_uninitialised_registers_are_zero():
    got, _ = run("add.u32 %r9, %r8, %r7; st.global.u32 [%d2], %r9;")
    assert (got == 0).all()
