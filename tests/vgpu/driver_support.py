"""What the tests of the driver share: checked calls, and kernels as PTX text."""

import ctypes

import numpy as np
from cuda.bindings import driver as cu

ADD_ONE = b"""
.version 8.0
.target sm_80
.address_size 64

.visible .entry add_one(.param .u64 data, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .b32 %r<7>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [data];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra $L_done;
    cvta.to.global.u64 %rd2, %rd1;
    mul.wide.u32 %rd3, %r5, 4;
    add.s64 %rd4, %rd2, %rd3;
    ld.global.u32 %r6, [%rd4];
    add.s32 %r6, %r6, 1;
    st.global.u32 [%rd4], %r6;
$L_done:
    ret;
}
"""


class DriverError(Exception):
    """A call that did not return CUDA_SUCCESS."""


def call(result):
    """The results of a call that must succeed: none, one, or a tuple."""
    code, *values = result
    if code != cu.CUresult.CUDA_SUCCESS:
        raise DriverError(code.name)
    return values[0] if len(values) == 1 else tuple(values) or None


def code(result) -> str:
    """The name of the CUresult, without its prefix."""
    return result[0].name.removeprefix("CUDA_ERROR_").removeprefix("CUDA_")


def kernel(ptx: bytes = ADD_ONE, name: bytes = b"add_one"):
    """A loaded kernel."""
    module = call(cu.cuModuleLoadData(ptx))
    return call(cu.cuModuleGetFunction(module, name))


def launch(function, *args, grid=1, block=32, shared=0, stream=0):
    """Launch with arguments that are addresses (int) or np.uint32; the CUresult tuple."""
    values = tuple(arg if isinstance(arg, int) else int(arg) for arg in args)
    kinds = tuple(ctypes.c_uint64 if isinstance(arg, int) else ctypes.c_uint32 for arg in args)
    return cu.cuLaunchKernel(function, grid, 1, 1, block, 1, 1, shared, stream, (values, kinds), 0)


def alloc(nbytes: int) -> int:
    """Device memory."""
    return int(call(cu.cuMemAlloc(nbytes)))


def pinned(n: int, dtype=np.uint32) -> np.ndarray:
    """Page-locked host memory as an array; it lives as long as the context."""
    nbytes = n * np.dtype(dtype).itemsize
    address = int(call(cu.cuMemHostAlloc(nbytes, 0)))
    return np.frombuffer((ctypes.c_uint8 * nbytes).from_address(address), dtype)


def upload(array: np.ndarray) -> int:
    """A device copy."""
    address = alloc(array.nbytes)
    call(cu.cuMemcpyHtoD(address, array.ctypes.data, array.nbytes))
    return address


def download(address: int, n: int, dtype=np.uint32) -> np.ndarray:
    """A host copy."""
    array = np.zeros(n, dtype)
    call(cu.cuMemcpyDtoH(array.ctypes.data, address, array.nbytes))
    return array


def stream(nonblocking: bool = True):
    """A new stream."""
    return call(cu.cuStreamCreate(1 if nonblocking else 0))


def event(timing: bool = True):
    """A new event."""
    return call(cu.cuEventCreate(0 if timing else 2))
