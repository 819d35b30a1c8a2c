"""Device functions that call themselves or each other, calls through pointers, malloc and free."""

import numpy as np
import pytest
from cuda.bindings import driver as cu
from driver_support import alloc, call, code, download, kernel, launch, upload
from numba import cuda

import grader.vgpu

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"


@cuda.jit("int64(int64)", device=True)
def fibonacci(n):
    if n < 2:
        return n
    return fibonacci(n - 1) + fibonacci(n - 2)


@cuda.jit
def fibonacci_kernel(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = fibonacci(x[i])


def test_lanes_recurse_to_different_depths():
    x = np.arange(40, dtype=np.int64) % 11
    y = np.zeros_like(x)
    before = len(grader.vgpu.findings())
    fibonacci_kernel[2, 32](x, y)
    fibonacci_numbers = [0, 1]
    while len(fibonacci_numbers) < 11:
        fibonacci_numbers.append(sum(fibonacci_numbers[-2:]))
    np.testing.assert_array_equal(y, np.array(fibonacci_numbers)[x])
    assert not grader.vgpu.findings()[before:]


# even(n) and odd(n) call each other; each keeps n in a register over the call and adds it to the result.
MUTUAL = (
    HEADER.encode()
    + b"""
.func (.param .b32 result) odd(.param .b32 n);
.func (.param .b32 result) even(.param .b32 n)
{
    .reg .pred %p; .reg .b32 %r<4>;
    ld.param.b32 %r1, [n];
    mov.u32 %r2, 1000;
    setp.eq.u32 %p, %r1, 0;
    @%p bra $done;
    sub.u32 %r3, %r1, 1;
    { .param .b32 a; .param .b32 b; st.param.b32 [a], %r3; call (b), odd, (a); ld.param.b32 %r2, [b]; }
    add.u32 %r2, %r2, %r1;
$done:
    st.param.b32 [result], %r2;
    ret;
}
.func (.param .b32 result) odd(.param .b32 n)
{
    .reg .pred %p; .reg .b32 %r<4>;
    ld.param.b32 %r1, [n];
    mov.u32 %r2, 2000;
    setp.eq.u32 %p, %r1, 0;
    @%p bra $done;
    sub.u32 %r3, %r1, 1;
    { .param .b32 a; .param .b32 b; st.param.b32 [a], %r3; call (b), even, (a); ld.param.b32 %r2, [b]; }
    add.u32 %r2, %r2, %r1;
$done:
    st.param.b32 [result], %r2;
    ret;
}
.visible .entry mutual(.param .u64 data)
{
    .reg .b32 %r<3>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [data];
    mov.u32 %r1, %tid.x;
    { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), even, (a); ld.param.b32 %r2, [b]; }
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r2;
    ret;
}
"""
)


def test_functions_that_call_each_other(device):
    out = alloc(4 * 32)
    call(launch(kernel(MUTUAL, b"mutual"), out, block=32))
    n = np.arange(32)
    np.testing.assert_array_equal(download(out, 32), n * (n + 1) // 2 + np.where(n % 2, 2000, 1000))


# Each thread calls the function whose number in `table` is its input.
POINTERS = (
    HEADER.encode()
    + b"""
.func (.param .b32 result) twice(.param .b32 n)
{
    .reg .b32 %r<3>;
    ld.param.b32 %r1, [n];
    add.u32 %r2, %r1, %r1;
    st.param.b32 [result], %r2;
    ret;
}
.func (.param .b32 result) thrice(.param .b32 n)
{
    .reg .b32 %r<3>;
    ld.param.b32 %r1, [n];
    mul.lo.u32 %r2, %r1, 3;
    st.param.b32 [result], %r2;
    ret;
}
.global .align 8 .u64 table[3] = {twice, thrice, 0};
.visible .entry pointers(.param .u64 data)
{
    .reg .b32 %r<4>; .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [data];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r2, [%rd3];
    mul.wide.u32 %rd4, %r2, 8;
    mov.u64 %rd5, table;
    add.s64 %rd6, %rd5, %rd4;
    ld.global.u64 %rd7, [%rd6];
    {
    .param .b32 a; .param .b32 b;
    st.param.b32 [a], %r1;
    shape : .callprototype (.param .b32 _) _ (.param .b32 _);
    call (b), %rd7, (a), shape;
    ld.param.b32 %r3, [b];
    }
    st.global.u32 [%rd3], %r3;
    ret;
}
"""
)


def test_calls_through_pointers(device):
    which = (np.arange(32) % 2).astype(np.uint32)
    data = upload(which)
    call(launch(kernel(POINTERS, b"pointers"), data, block=32))
    np.testing.assert_array_equal(download(data, 32), np.arange(32) * (2 + which))


def test_a_call_of_nothing_is_a_fault(device):
    data = upload(np.full(32, 2, np.uint32))
    launch(kernel(POINTERS, b"pointers"), data, block=32)
    assert code(cu.cuCtxSynchronize()) == "LAUNCH_FAILED"
    call(cu.cuDevicePrimaryCtxReset(device))


# Every thread takes a block of 8 * (thread + 1) bytes, fills its ends, reads them back and gives the block back.
HEAP = (
    HEADER.encode()
    + b"""
.extern .func (.param .b64 result) malloc(.param .b64 n);
.extern .func free(.param .b64 p);
.visible .entry heap(.param .u64 data)
{
    .reg .b32 %r<4>; .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [data];
    mov.u32 %r1, %tid.x;
    add.u32 %r2, %r1, 1;
    mul.wide.u32 %rd2, %r2, 8;
    { .param .b64 a; .param .b64 b; st.param.b64 [a], %rd2; call (b), malloc, (a); ld.param.b64 %rd3, [b]; }
    add.s64 %rd4, %rd3, %rd2;
    st.u32 [%rd4+-4], %r2;
    st.u32 [%rd3], %r1;
    ld.u32 %r1, [%rd3];
    ld.u32 %r3, [%rd4+-4];
    add.u32 %r3, %r3, %r1;
    { .param .b64 a; st.param.b64 [a], %rd3; call free, (a); }
    mul.wide.u32 %rd5, %r2, 4;
    add.s64 %rd6, %rd1, %rd5;
    st.global.u32 [%rd6+-4], %r3;
    ret;
}
"""
)


def test_malloc_and_free(device):
    function, out = kernel(HEAP, b"heap"), alloc(4 * 64)
    n = np.arange(64)
    for _ in range(400):  # more than the heap holds at once
        call(launch(function, out, grid=8, block=64))
    # with one input a thread, threads of one number in all blocks store the same: 8 bytes hold two numbers
    np.testing.assert_array_equal(download(out, 64), np.where(n == 0, 0, 2 * n + 1) + (n == 0))


def test_what_malloc_has_not_given_cannot_be_freed(device):
    wild = HEAP.replace(b"st.param.b64 [a], %rd3; call free", b"st.param.b64 [a], %rd4; call free")
    launch(kernel(wild, b"heap"), alloc(4 * 64), block=64)
    assert code(cu.cuCtxSynchronize()) == "LAUNCH_FAILED"
    call(cu.cuDevicePrimaryCtxReset(device))


@pytest.mark.parametrize("n", [30, 2000])
def test_a_stack_of_16_kib(device, n):
    """2000 calls deep are too many here: an illegal address, as a stack overflow is on a card."""
    one = MUTUAL.replace(b"mov.u32 %r1, %tid.x;", b"mov.u32 %%r1, %d;" % n)
    launch(kernel(one, b"mutual"), alloc(4 * 2001), block=1)
    assert code(cu.cuCtxSynchronize()) == ("SUCCESS" if n == 30 else "ILLEGAL_ADDRESS")
    call(cu.cuDevicePrimaryCtxReset(device))
