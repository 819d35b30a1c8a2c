"""Matrices and grids of cells: matmul from naive to tiled, transposes, stencils, convolution, sparse, n-body."""

import math

import numpy as np
from numba import cuda
from numba.cuda.types import float32

from course import blocks, case, floats, ints

TILE = 16


def check_matmul(launch, m, k, n, dtype=np.float32, rtol=1e-4):
    a, b = floats(m, k).astype(dtype), floats(k, n, high=2).astype(dtype)
    c = cuda.device_array((m, n), dtype)
    launch(cuda.to_device(a), cuda.to_device(b), c)
    np.testing.assert_allclose(c.copy_to_host(), a @ b, rtol=rtol, atol=rtol)


def matmul_naive(a, b, c):
    i, j = cuda.grid(2)
    if i < c.shape[0] and j < c.shape[1]:
        s = float32(0)
        for k in range(a.shape[1]):
            s += a[i, k] * b[k, j]
        c[i, j] = s


@case()
def naive_matmul():
    check_matmul(cuda.jit(matmul_naive)[(3, 3), (16, 16)], 40, 30, 35)


@cuda.jit
def matmul_f64_kernel(a, b, c):
    i, j = cuda.grid(2)
    if i < c.shape[0] and j < c.shape[1]:
        s = 0.0
        for k in range(a.shape[1]):
            s += a[i, k] * b[k, j]
        c[i, j] = s


@case()
def naive_matmul_in_f64():
    check_matmul(matmul_f64_kernel[(3, 3), (16, 16)], 40, 30, 35, np.float64, 1e-12)


@cuda.jit
def matmul_tiled_kernel(a, b, c):
    sa = cuda.shared.array((TILE, TILE), float32)
    sb = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.grid(2)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    s = float32(0)
    for t in range((a.shape[1] + TILE - 1) // TILE):
        sa[ty, tx] = a[y, tx + t * TILE] if (y < a.shape[0] and tx + t * TILE < a.shape[1]) else float32(0)
        sb[ty, tx] = b[ty + t * TILE, x] if (x < b.shape[1] and ty + t * TILE < b.shape[0]) else float32(0)
        cuda.syncthreads()
        for k in range(TILE):
            s += sa[ty, k] * sb[k, tx]
        cuda.syncthreads()
    if y < c.shape[0] and x < c.shape[1]:
        c[y, x] = s


@case()
def tiled_matmul():
    check_matmul(matmul_tiled_kernel[(3, 3), (16, 16)], 40, 50, 35)


@cuda.jit
def matmul_register_kernel(a, b, c):
    sa = cuda.shared.array((64, 8), float32)
    sb = cuda.shared.array((8, 64), float32)
    acc = cuda.local.array((4, 4), float32)
    t = cuda.threadIdx.x
    tr = t // 16
    tc = t % 16
    for i in range(4):
        for j in range(4):
            acc[i, j] = 0
    row = cuda.blockIdx.y * 64
    col = cuda.blockIdx.x * 64
    for k0 in range(0, a.shape[1], 8):
        for q in range(2):
            e = t + q * 256
            sa[e // 8, e % 8] = a[row + e // 8, k0 + e % 8]
            sb[e // 64, e % 64] = b[k0 + e // 64, col + e % 64]
        cuda.syncthreads()
        for k in range(8):
            for i in range(4):
                for j in range(4):
                    acc[i, j] += sa[tr * 4 + i, k] * sb[k, tc * 4 + j]
        cuda.syncthreads()
    for i in range(4):
        for j in range(4):
            c[row + tr * 4 + i, col + tc * 4 + j] = acc[i, j]


@case()
def matmul_with_register_tiles():
    check_matmul(matmul_register_kernel[(2, 1), 256], 64, 24, 128)


@cuda.jit
def transpose_kernel(a, b):
    i, j = cuda.grid(2)
    if i < a.shape[0] and j < a.shape[1]:
        b[j, i] = a[i, j]


@case()
def naive_transpose():
    a = floats(50, 70)
    b = cuda.device_array((70, 50), np.float32)
    transpose_kernel[(4, 5), (16, 16)](a, b)
    np.testing.assert_array_equal(b.copy_to_host(), a.T)


@cuda.jit
def transpose_tiled_kernel(a, b):
    tile = cuda.shared.array((32, 33), float32)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    x = cuda.blockIdx.x * 32 + tx
    y = cuda.blockIdx.y * 32 + ty
    for j in range(0, 32, 8):
        if y + j < a.shape[0] and x < a.shape[1]:
            tile[ty + j, tx] = a[y + j, x]
    cuda.syncthreads()
    x = cuda.blockIdx.y * 32 + tx
    y = cuda.blockIdx.x * 32 + ty
    for j in range(0, 32, 8):
        if y + j < b.shape[0] and x < b.shape[1]:
            b[y + j, x] = tile[tx, ty + j]


@case()
def tiled_transpose():
    a = floats(50, 70)
    b = cuda.device_array((70, 50), np.float32)
    transpose_tiled_kernel[(3, 2), (32, 8)](a, b)
    np.testing.assert_array_equal(b.copy_to_host(), a.T)


THREADS, HALO = 256, 258


@cuda.jit
def stencil_kernel(x, y, w):
    s = cuda.shared.array(HALO, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    n = x.size
    s[t + 1] = x[i] if i < n else float32(0)
    if t == 0:
        s[0] = x[i - 1] if i > 0 else float32(0)
    if t == cuda.blockDim.x - 1:
        s[t + 2] = x[i + 1] if i + 1 < n else float32(0)
    cuda.syncthreads()
    if i < n:
        y[i] = w * (s[t] + s[t + 2]) + (1 - 2 * w) * s[t + 1]


@case()
def stencil_with_a_halo():
    x, w = floats(700), np.float32(0.3)
    y = cuda.device_array_like(x)
    stencil_kernel[3, THREADS](x, y, w)
    p = np.pad(x, 1)
    np.testing.assert_allclose(y.copy_to_host(), w * (p[:-2] + p[2:]) + (1 - 2 * w) * x, rtol=1e-5, atol=1e-6)


@cuda.jit
def stencil_2d_kernel(a, b):
    i, j = cuda.grid(2)
    if 0 < i < a.shape[0] - 1 and 0 < j < a.shape[1] - 1:
        b[i, j] = 0.25 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])


@case()
def stencil_in_two_dimensions():
    a = floats(40, 50)
    b = cuda.to_device(np.zeros_like(a))
    stencil_2d_kernel[(3, 4), (16, 16)](a, b)
    expected = np.zeros_like(a)
    expected[1:-1, 1:-1] = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
    np.testing.assert_allclose(b.copy_to_host(), expected, rtol=1e-5, atol=1e-6)


@cuda.jit
def heat_kernel(a, b):
    i, j, k = cuda.grid(3)
    if 0 < i < a.shape[0] - 1 and 0 < j < a.shape[1] - 1 and 0 < k < a.shape[2] - 1:
        around = a[i - 1, j, k] + a[i + 1, j, k] + a[i, j - 1, k] + a[i, j + 1, k] + a[i, j, k - 1] + a[i, j, k + 1]
        b[i, j, k] = a[i, j, k] + float32(0.1) * (around - 6 * a[i, j, k])


@case()
def heat_in_three_dimensions():
    a = floats(10, 12, 9)
    b = cuda.to_device(np.zeros_like(a))
    heat_kernel[(3, 3, 3), (4, 4, 4)](a, b)
    inner = a[1:-1, 1:-1, 1:-1]
    around = (
        a[:-2, 1:-1, 1:-1]
        + a[2:, 1:-1, 1:-1]
        + a[1:-1, :-2, 1:-1]
        + a[1:-1, 2:, 1:-1]
        + a[1:-1, 1:-1, :-2]
        + a[1:-1, 1:-1, 2:]
    )
    np.testing.assert_allclose(
        b.copy_to_host()[1:-1, 1:-1, 1:-1], inner + 0.1 * (around - 6 * inner), rtol=1e-4, atol=1e-6
    )


@cuda.jit
def convolve_2d_kernel(x, w, y):
    i, j = cuda.grid(2)
    if i < y.shape[0] and j < y.shape[1]:
        s = float32(0)
        for a in range(w.shape[0]):
            for b in range(w.shape[1]):
                s += x[i + a, j + b] * w[a, b]
        y[i, j] = s


@case()
def convolution_in_two_dimensions():
    x, w = floats(30, 34), floats(3, 5)
    y = cuda.device_array((28, 30), np.float32)
    convolve_2d_kernel[(2, 2), (16, 16)](x, w, y)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 5))
    np.testing.assert_allclose(y.copy_to_host(), (windows * w).sum((2, 3)), rtol=1e-4, atol=1e-5)


@cuda.jit
def life_kernel(a, b, h, w):
    i, j = cuda.grid(2)
    if i < h and j < w:
        n = 0
        for di in (-1, 0, 1):
            for dj in (-1, 0, 1):
                if di != 0 or dj != 0:
                    n += a[((i + di) % h) * w + (j + dj) % w]
        b[i * w + j] = 1 if n == 3 or (n == 2 and a[i * w + j] == 1) else 0


@case()
def game_of_life():
    h, w = 20, 30
    a = ints(h, w, high=2, dtype=np.uint8)
    b = cuda.device_array(h * w, np.uint8)
    life_kernel[(2, 2), (16, 16)](a.ravel(), b, h, w)
    n = sum(np.roll(a, (di, dj), (0, 1)) for di in (-1, 0, 1) for dj in (-1, 0, 1)) - a
    np.testing.assert_array_equal(b.copy_to_host().reshape(h, w), (n == 3) | ((n == 2) & (a == 1)))


@cuda.jit
def spmv_kernel(start, column, value, x, y):
    r = cuda.grid(1)
    if r < y.size:
        s = float32(0)
        for k in range(start[r], start[r + 1]):
            s += value[k] * x[column[k]]
        y[r] = s


@case()
def sparse_matrix_times_vector():
    dense = np.where(floats(90, 70) > 0.6, floats(90, 70, high=3), 0).astype(np.float32)
    rows, columns = np.nonzero(dense)
    start = np.searchsorted(rows, np.arange(91)).astype(np.int32)
    x, y = floats(70, high=2), cuda.device_array(90, np.float32)
    spmv_kernel[3, 32](start, columns.astype(np.int32), dense[rows, columns], x, y)
    np.testing.assert_allclose(y.copy_to_host(), dense @ x, rtol=1e-4, atol=1e-5)


@cuda.jit
def n_body_kernel(p, out):
    i = cuda.grid(1)
    a = float32(0)
    s = cuda.shared.array(128, float32)
    for t in range(0, p.size, 128):
        s[cuda.threadIdx.x] = p[t + cuda.threadIdx.x]
        cuda.syncthreads()
        for j in range(128):
            d = s[j] - p[i]
            r = d * d + float32(1e-3)
            a += d / (r * math.sqrt(r))
        cuda.syncthreads()
    out[i] = a


@case()
def n_bodies():
    p = floats(256)
    out = cuda.device_array_like(p)
    n_body_kernel[2, 128](p, out)
    d = p[None, :].astype(np.float64) - p[:, None]
    r = d * d + 1e-3
    np.testing.assert_allclose(out.copy_to_host(), (d / (r * np.sqrt(r))).sum(1), rtol=1e-3, atol=0.5)


@cuda.jit
def mandelbrot_kernel(image, w, h, scale, limit):
    x, y = cuda.grid(2)
    if x < w and y < h:
        c = complex(x * scale - 2, y * scale - 1)
        z = 0j
        n = 0
        while n < limit and z.real * z.real + z.imag * z.imag < 4:
            z = z * z + c
            n += 1
        image[y * w + x] = n


@case()
def mandelbrot_set():
    w, h, scale, limit = 48, 32, 0.0625, 40
    image = cuda.device_array(w * h, np.uint8)
    mandelbrot_kernel[(blocks(w, 16), blocks(h, 8)), (16, 8)](image, w, h, scale, limit)
    x, y = np.meshgrid(np.arange(w) * scale - 2, np.arange(h) * scale - 1)
    z, n = np.zeros((h, w), complex), np.zeros((h, w), np.uint8)
    for _ in range(limit):
        inside = z.real**2 + z.imag**2 < 4
        z = np.where(inside, z * z + x + 1j * y, z)
        n += inside
    np.testing.assert_array_equal(image.copy_to_host().reshape(h, w), n)
