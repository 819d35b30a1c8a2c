"""Through which parameters a kernel may store: what the guard of the host's memory closes."""

import pytest

from grader.vgpu.machine import Memory, Module

HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 a, .param .u32 n, .param .u64 b, .param .align 8 .b8 s[16])
{
    .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<3>;
    .local .align 8 .b8 own[16];
    ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u32 %r1, [n];
"""
A, B, S = 0, 16, 24  # offsets in the parameter block


@pytest.mark.parametrize(
    ("body", "stores"),
    [
        ("ld.global.f32 %f1, [%rd1]; st.global.f32 [%rd2], %f1;", {B}),
        ("ld.global.u32 %r2, [%rd1]; mad.wide.u32 %rd3, %r2, 4, %rd2; red.global.add.u32 [%rd3], 1;", {B}),
        ("mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd1, %rd3; atom.global.add.u32 %r2, [%rd4+8], 1;", {8, A}),
        ("cvta.to.global.u64 %rd3, %rd2; st.global.u32 [%rd3], %r1; ld.global.u64 %rd5, [%rd1];", {B}),
        ("setp.eq.u32 %p1, %r1, 0; selp.b64 %rd3, %rd1, %rd2, %p1; st.u32 [%rd3], %r1;", {A, B}),
        ("ld.param.v2.u64 {%rd3, %rd4}, [s]; st.global.u32 [%rd4], %r1;", {S, S + 8}),
        ("ld.param.u64 %rd3, [s+8]; st.global.u32 [%rd3], %r1;", {S + 8}),
        ("mov.u64 %rd3, own; st.local.u64 [%rd3], %rd1; ld.local.u64 %rd4, [%rd3]; st.global.u32 [%rd4], 1;", None),
        ("st.local.u64 [own], %rd1; ld.global.u32 %r2, [%rd2];", set()),
        ("loop: add.s64 %rd5, %rd4, 4; st.global.u32 [%rd5], 0; mov.u64 %rd4, %rd1; bra loop;", {A}),
    ],
)
def test_where_pointers_go(body, stores):
    kernel = Module(HEAD + body + "\nret;\n}\n", Memory()).kernels["k"]
    assert kernel.stores == (None if stores is None else frozenset(stores))
