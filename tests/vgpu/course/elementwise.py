"""A thread an item: maps, grid strides, flags, branches, local and dynamic shared arrays."""

import math

import numpy as np
from numba import cuda
from numba.cuda import libdevice
from numba.cuda.types import CPointer, float32, int32, void

import grader.vgpu
from course import blocks, case, floats, ints
from course.ptx import global_address, load_4, store_4

N, THREADS = 1000, 128
GRID = blocks(N, THREADS)


@cuda.jit
def saxpy_kernel(n, a, x, y):
    i = cuda.grid(1)
    if i < n:
        y[i] = a * x[i] + y[i]


@case()
def saxpy():
    x, y = floats(N), floats(N)
    out = cuda.to_device(y)
    saxpy_kernel[GRID, THREADS](N, np.float32(3), x, out)
    np.testing.assert_allclose(out.copy_to_host(), np.float32(3) * x + y, rtol=1e-6, atol=1e-7)


@cuda.jit
def saxpy_stride_kernel(a, x, y):
    for i in range(cuda.grid(1), x.shape[0], cuda.gridsize(1)):
        y[i] = a[0] * x[i] + y[i]


@case()
def saxpy_with_a_grid_stride():
    x, y, a = floats(N), floats(N), floats(1)
    out = cuda.to_device(y)
    saxpy_stride_kernel[2, 64](a, x, out)
    np.testing.assert_allclose(out.copy_to_host(), a * x + y, rtol=1e-6, atol=1e-7)


@cuda.jit
def add_2d_kernel(a, b, c):
    i, j = cuda.grid(2)
    if i < c.shape[0] and j < c.shape[1]:
        c[i, j] = a[i, j] + b[i, j]


@case()
def add_2d():
    a, b = floats(37, 53), floats(37, 53, high=5)
    c = cuda.device_array_like(a)
    add_2d_kernel[(blocks(37, 8), blocks(53, 16)), (8, 16)](a, b, c)
    np.testing.assert_array_equal(c.copy_to_host(), a + b)


@cuda.jit
def copy_4_kernel(x, y):
    i = cuda.grid(1) * 4
    v = load_4(global_address(x, i))
    store_4(global_address(y, i), v[0], v[1], v[2], v[3])


@case()
def copy_by_16_bytes():
    x = floats(1024)
    y = cuda.device_array_like(x)
    copy_4_kernel[2, 128](cuda.to_device(x), y)
    np.testing.assert_array_equal(y.copy_to_host(), x)


@cuda.jit
def cache_hints_kernel(x, y, z):
    i = cuda.grid(1)
    total = cuda.ldcg(x, i) + cuda.ldca(x, i) + cuda.ldcs(x, i) + cuda.ldcv(x, i)
    cuda.stcg(y, i, float32(0))
    cuda.stwt(z, i, total)
    cuda.stcs(y, i, total)


@case()
def cache_hints():
    x = floats(256)
    y, z = cuda.device_array_like(x), cuda.device_array_like(x)
    cache_hints_kernel[2, 128](x, y, z)
    np.testing.assert_allclose(y.copy_to_host(), 4 * x, rtol=1e-6)
    np.testing.assert_array_equal(z.copy_to_host(), y.copy_to_host())


@cuda.jit
def complex_kernel(x, y):
    i = cuda.grid(1)
    y[i] = x[i] * y[i] + abs(x[i])


@case()
def complex_multiply():
    x = (floats(256) + 1j * floats(256, high=2)).astype(np.complex64)
    y = (floats(256, high=3) - 1j * floats(256)).astype(np.complex64)
    out = cuda.to_device(y)
    complex_kernel[2, 128](x, out)
    np.testing.assert_allclose(out.copy_to_host(), x * y + abs(x), rtol=1e-5, atol=1e-6)


@cuda.jit
def row_sums_kernel(x, y):
    i = cuda.grid(1)
    s = float32(0)
    for j in range(x.shape[1]):
        s += x[i, j]
    y[i] = s


@case()
def rows_of_a_strided_array():
    x = cuda.to_device(floats(128, 40))[:, ::2]
    y = cuda.device_array(128, np.float32)
    row_sums_kernel[4, 32](x, y)
    np.testing.assert_allclose(y.copy_to_host(), floats(128, 40)[:, ::2].sum(1), rtol=1e-4, atol=1e-5)


@cuda.jit
def flag_kernel(x, y, keep):
    i = cuda.grid(1)
    if keep and i < x.size:
        y[i] = x[i]
    elif not keep:
        y[i] = -x[i]


@case()
def a_flag_as_argument():
    x = floats(128)
    y = cuda.device_array_like(x)
    for keep in (True, False):
        flag_kernel[1, 128](x, y, keep)
        np.testing.assert_array_equal(y.copy_to_host(), x if keep else -x)


@cuda.jit
def switch_kernel(op, y):
    i = cuda.grid(1)
    o = op[i]
    if o == 0:
        y[i] = 1
    elif o == 1:
        y[i] = 2
    elif o == 2:
        y[i] = 5
    elif o == 3:
        y[i] = 3
    elif o == 4:
        y[i] = 9
    elif o == 5:
        y[i] = 7
    else:
        y[i] = 0


@case()
def seven_ways():
    op = ints(256, high=8)
    y = cuda.device_array(256, np.float32)
    switch_kernel[2, 128](op, y)
    np.testing.assert_array_equal(y.copy_to_host(), np.array([1, 2, 5, 3, 9, 7, 0, 0], np.float32)[op])


@cuda.jit
def local_kernel(x, y):
    kept = cuda.local.array(16, float32)
    i = cuda.grid(1)
    for j in range(16):
        kept[j] = x[i * 16 + j]
    y[i] = kept[int(x[i]) & 15]


@case()
def local_array_with_an_index_from_data():
    x = floats(64 * 16, high=30)
    y = cuda.device_array(64, np.float32)
    local_kernel[1, 64](x, y)
    np.testing.assert_array_equal(y.copy_to_host(), x.reshape(64, 16)[np.arange(64), x[:64].astype(int) & 15])


@cuda.jit
def reverse_kernel(x, y):
    s = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    y[cuda.grid(1)] = s[cuda.blockDim.x - 1 - t]


@case()
def dynamic_shared_memory():
    x = floats(512)
    y = cuda.device_array_like(x)
    reverse_kernel[4, 128, 0, 512](x, y)
    np.testing.assert_array_equal(y.copy_to_host(), x.reshape(4, 128)[:, ::-1].ravel())


@cuda.jit(void(CPointer(float32), CPointer(float32), int32))
def pointer_kernel(x, y, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = 2 * x[i]


@case()
def pointers_as_arguments():
    x = floats(100)
    given, out = cuda.to_device(x), cuda.device_array_like(x)
    pointer_kernel[1, 128](given.device_ctypes_pointer.value, out.device_ctypes_pointer.value, 100)
    np.testing.assert_array_equal(out.copy_to_host(), 2 * x)


@cuda.jit(device=True)
def clamp(v, low, high):
    return min(max(v, low), high)


@cuda.jit
def device_function_kernel(x, y):
    i = cuda.grid(1)
    y[i] = clamp(x[i], float32(0), float32(6))


@case()
def a_device_function():
    x = floats(256, low=-10, high=10)
    y = cuda.device_array_like(x)
    device_function_kernel[2, 128](x, y)
    np.testing.assert_array_equal(y.copy_to_host(), np.clip(x, 0, 6))


COEFFICIENTS = np.array([0.1, 0.2, 0.4, 0.2, 0.1], np.float32)


@cuda.jit
def convolve_kernel(x, y):
    c = cuda.const.array_like(COEFFICIENTS)
    i = cuda.grid(1)
    s = float32(0)
    if 2 <= i < x.size - 2:
        for k in range(5):
            s += c[k] * x[i + k - 2]
        y[i] = s


@case()
def convolution_with_constant_memory():
    x = floats(500)
    y = cuda.to_device(np.zeros_like(x))
    convolve_kernel[4, 128](x, y)
    expected = np.zeros_like(x)
    expected[2:-2] = np.convolve(x, COEFFICIENTS, "valid")
    np.testing.assert_allclose(y.copy_to_host(), expected, rtol=1e-5, atol=1e-6)


@cuda.jit
def libdevice_kernel(x, y):
    i = cuda.grid(1)
    v = x[i]
    y[i] = (
        libdevice.rsqrtf(v)
        + libdevice.fast_expf(v)
        + libdevice.fast_sinf(v)
        + libdevice.fast_fdividef(v, float32(3.0))
        + libdevice.fmaf(v, v, float32(1.0))
    )


@case()
def libdevice_functions():
    x = floats(128, low=0.1, high=3)
    y = cuda.device_array_like(x)
    libdevice_kernel[1, 128](x, y)
    np.testing.assert_allclose(y.copy_to_host(), 1 / np.sqrt(x) + np.exp(x) + np.sin(x) + x / 3 + x * x + 1, rtol=1e-5)


@cuda.jit
def select_kernel(x, y):
    i = cuda.grid(1)
    y[i] = cuda.fma(x[i], x[i], y[i]) + cuda.selp(x[i] > 0, x[i], y[i]) + cuda.cbrt(x[i])


@case()
def fma_select_and_cube_root():
    x, y = floats(128), floats(128, high=4)
    out = cuda.to_device(y)
    select_kernel[1, 128](x, out)
    np.testing.assert_allclose(out.copy_to_host(), x * x + y + np.where(x > 0, x, y) + np.cbrt(x), rtol=1e-5, atol=1e-6)


@cuda.jit
def print_kernel(x):
    if cuda.grid(1) == 0:
        print("x", x[0], cuda.blockIdx.x)


@case()
def prints():
    printed = []
    if grader.vgpu.active():  # a card prints to standard output
        grader.vgpu.on_launch(lambda kernel, work, result, span: printed.append(result.printed))
    print_kernel[2, 32](np.array([1.5], np.float32))
    cuda.synchronize()
    assert printed == [b"x 1.500000 0\n"] * bool(grader.vgpu.active())


@cuda.jit(debug=True, opt=False)
def raise_kernel(x, y):
    i = cuda.grid(1)
    if x[i] < 0:
        raise ValueError("negative")
    y[i] = math.sqrt(x[i])


@case()
def raises_in_debug_mode():
    x = floats(32, low=0, high=9)
    y = cuda.device_array_like(x)
    raise_kernel[1, 32](x, y)
    np.testing.assert_allclose(y.copy_to_host(), np.sqrt(x), rtol=1e-6)
    x[7] = -1
    try:
        raise_kernel[1, 32](x, y)
    except ValueError as error:
        assert "negative" in str(error)
    else:
        raise AssertionError("no ValueError")
