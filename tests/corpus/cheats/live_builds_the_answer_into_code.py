# expect: WA works_on_device
# exercise: 06_overlap
# The host computes the answer and builds it into the code of modules, as initial values; other inputs get nothing.
import ctypes

import numpy as np
from cuda.bindings import driver as cu
from numba import cuda

BLOCKS, THREADS = 4, 128
CHUNK = 1 << 16
PTX = """
.version 8.0
.target sm_80
.address_size 64
.visible .global .align 4 .b32 known[%d] = {%s};
.visible .entry give(.param .u64 y, .param .u64 x, .param .u32 n, .param .f32 first)
{
  .reg .pred %%p<3>;
  .reg .b32 %%r<7>;
  .reg .b64 %%d<7>;
  .reg .f32 %%f<4>;
  ld.param.u64 %%d1, [y];
  ld.param.u64 %%d6, [x];
  ld.param.u32 %%r1, [n];
  ld.param.f32 %%f1, [first];
  ld.global.f32 %%f2, [%%d6];
  setp.neu.f32 %%p2, %%f1, %%f2;
  @%%p2 bra DONE;
  mov.u32 %%r2, %%tid.x;
  mov.u32 %%r3, %%ctaid.x;
  mov.u32 %%r4, %%ntid.x;
  mov.u32 %%r6, %%nctaid.x;
  mad.lo.u32 %%r5, %%r3, %%r4, %%r2;
  mul.lo.u32 %%r6, %%r6, %%r4;
LOOP:
  setp.ge.u32 %%p1, %%r5, %%r1;
  @%%p1 bra DONE;
  mov.u64 %%d2, known;
  mul.wide.u32 %%d3, %%r5, 4;
  add.u64 %%d4, %%d2, %%d3;
  ld.global.f32 %%f3, [%%d4];
  add.u64 %%d5, %%d1, %%d3;
  st.global.f32 [%%d5], %%f3;
  add.u32 %%r5, %%r5, %%r6;
  bra LOOP;
DONE:
  ret;
}
"""


def answer(x):
    return (x * x + np.where(x > 0, 2, 1)).astype(np.float32)


def made(answer):
    words = ",".join(map(str, answer.view(np.uint32).tolist()))
    _, module = cu.cuModuleLoadData((PTX % (answer.size, words)).encode())
    return cu.cuModuleGetFunction(module, b"give")[1]


def overlap(h_x, h_y, d_x, d_y):
    d_x[:1].copy_to_device(h_x[:1])
    kinds = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_float)
    streams = [cuda.stream() for _ in range(3)]
    for c, first in enumerate(range(0, h_x.size, CHUNK)):
        part = slice(first, min(first + CHUNK, h_x.size))
        to, at = (a.__cuda_array_interface__["data"][0] for a in (d_y[part], d_x))
        args = (to, at, h_y[part].size, float(h_x[0])), kinds
        s = streams[c % 3]
        handle = getattr(s.handle, "value", s.handle)
        cu.cuLaunchKernel(made(answer(h_x[part])), BLOCKS, 1, 1, THREADS, 1, 1, 0, int(handle), args, 0)
        d_y[part].copy_to_host(h_y[part], stream=s)
    for s in streams:
        s.synchronize()
