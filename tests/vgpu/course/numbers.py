"""Arithmetic: integers, bits, half and double precision, mathematical functions, conversions, random numbers."""

import math

import numpy as np
from numba import cuda
from numba.cuda.random import (
    create_xoroshiro128p_states,
    xoroshiro128p_normal_float32,
    xoroshiro128p_uniform_float32,
)
from numba.cuda.types import float16, float32, int8, int16, uint32

from course import case, floats, ints

N = 256


def run(kernel, *inputs, dtype=None):
    """kernel(inputs..., out) with two blocks of 128 threads: out."""
    out = cuda.device_array(N, dtype or inputs[0].dtype)
    kernel[2, 128](*inputs, out)
    return out.copy_to_host()


@cuda.jit
def divide_kernel(a, b, o):
    i = cuda.grid(1)
    if i < o.size:
        o[i] = a[i] // b[i] + a[i] % b[i] - (a[i] // 7) + (a[i] % 7)


@case()
def integer_division():
    a, b = (
        ints(N, low=-1000, high=1000),
        ints(N, low=1, high=50) * np.where(ints(N, high=2) == 1, 1, -1).astype(np.int32),
    )
    np.testing.assert_array_equal(run(divide_kernel, a, b), a // b + a % b - a // 7 + a % 7)


@cuda.jit
def bits_kernel(a, o):
    i = cuda.grid(1)
    v = a[i]
    counts = cuda.popc(v) + cuda.clz(v) + cuda.ffs(v)
    o[i] = (
        counts
        + (cuda.brev(v) ^ ((v >> uint32(3)) ^ (v << uint32(5)) & ~v | uint32(1)))
        + v // uint32(10)
        + v % uint32(10)
    )


@case()
def bits_of_unsigned_integers():
    a = np.concatenate([[0, 1, 0xFFFFFFFF, 0x80000000], ints(N - 4, high=2**32, dtype=np.uint32)]).astype(np.uint32)
    words = [f"{v:032b}" for v in a]
    popc = np.array([w.count("1") for w in words])
    clz = np.array([len(w) - len(w.lstrip("0")) for w in words])
    ffs = np.array([w[::-1].find("1") + 1 for w in words])
    brev = np.array([int(w[::-1], 2) for w in words], np.uint32)
    mixed = brev ^ ((a >> 3) ^ (a << 5) & ~a | 1)
    expected = (popc + clz + ffs + mixed.astype(np.int64) + a // 10 + a % 10) & 0xFFFFFFFF
    np.testing.assert_array_equal(run(bits_kernel, a), expected)


@cuda.jit
def int64_kernel(a, o):
    i = cuda.grid(1)
    v = a[i]
    mixed = (v * 6364136223846793005 + 1442695040888963407) // 3
    o[i] = mixed + abs(v) + (v % 1000) + min(v, 7) + max(v, -7) + (v >> 2) + (v << 3)


@case()
def integers_of_64_bits():
    a = ints(N, low=-(2**40), high=2**40, dtype=np.int64)
    with np.errstate(over="ignore"):
        mixed = (a * 6364136223846793005 + 1442695040888963407) // 3
        expected = mixed + abs(a) + a % 1000 + np.minimum(a, 7) + np.maximum(a, -7) + (a >> 2) + (a << 3)
    np.testing.assert_array_equal(run(int64_kernel, a), expected)


@cuda.jit
def half_kernel(x, y, o):
    i = cuda.grid(1)
    o[i] = x[i] * float16(2) + y[i]


@case()
def half_precision():
    x, y = floats(N).astype(np.float16), floats(N, high=3).astype(np.float16)
    np.testing.assert_allclose(run(half_kernel, x, y), x * np.float16(2) + y, rtol=1e-3, atol=1e-3)


@cuda.jit
def half_mixed_kernel(x, o):
    i = cuda.grid(1)
    o[i] = float32(x[i]) * float32(0.5) + float32(x[i] > float16(1))


@case()
def half_and_single_precision():
    x = floats(N, high=3).astype(np.float16)
    expected = x.astype(np.float32) * np.float32(0.5) + (x > 1)
    np.testing.assert_array_equal(run(half_mixed_kernel, x, dtype=np.float32), expected.astype(np.float32))


@cuda.jit
def promote_kernel(x, y):
    i = cuda.grid(1)
    y[i] = x[i] * 0.5 + 1.0 / (i + 1)


@case()
def promotion_to_double():
    x = floats(N)
    expected = (x.astype(np.float64) * 0.5 + 1.0 / np.arange(1, N + 1)).astype(np.float32)
    np.testing.assert_allclose(run(promote_kernel, x), expected, rtol=1e-7)


@cuda.jit
def double_kernel(x, y):
    i = cuda.grid(1)
    y[i] = math.sqrt(x[i]) + math.exp(x[i]) + math.sin(x[i]) + x[i] / 3.0 + math.floor(x[i]) + abs(x[i])


@case()
def double_precision_functions():
    x = floats(N, low=0, high=5).astype(np.float64)
    np.testing.assert_allclose(
        run(double_kernel, x), np.sqrt(x) + np.exp(x) + np.sin(x) + x / 3 + np.floor(x) + x, rtol=1e-14
    )


@cuda.jit
def trigonometry_kernel(x, y):
    i = cuda.grid(1)
    y[i] = math.sin(x[i]) + math.cos(x[i])


@case()
def trigonometry():
    x = np.concatenate([floats(N - 4, low=-100, high=100), [1e5, -1e8, 3e20, 0]]).astype(np.float32)
    exact = np.sin(x.astype(np.float64)) + np.cos(x.astype(np.float64))
    np.testing.assert_allclose(run(trigonometry_kernel, x), exact, rtol=1e-5, atol=1e-6)


@cuda.jit
def transcendental_kernel(x, y):
    i = cuda.grid(1)
    v = x[i]
    some = math.log(v) + math.exp(v) + math.tanh(v) + math.pow(v, float32(2.5)) + math.erf(v) + math.atan2(v, v)
    y[i] = some + math.floor(v) + math.ceil(v) + math.fabs(v) + math.log1p(v)


@case()
def transcendental_functions():
    x = floats(N, low=0.1, high=4)
    v = x.astype(np.float64)
    erf = np.array([math.erf(e) for e in v])
    some = np.log(v) + np.exp(v) + np.tanh(v) + v**2.5 + erf + np.arctan2(v, v)
    np.testing.assert_allclose(
        run(transcendental_kernel, x), some + np.floor(v) + np.ceil(v) + v + np.log1p(v), rtol=1e-5
    )


@cuda.jit
def black_scholes_kernel(s, x, t, rate, volatility, call):
    i = cuda.grid(1)
    if i < s.size:
        root = math.sqrt(t[i])
        d1 = (math.log(s[i] / x[i]) + (rate + float32(0.5) * volatility * volatility) * t[i]) / (volatility * root)
        d2 = d1 - volatility * root
        n1 = float32(0.5) * (float32(1) + math.erf(d1 / math.sqrt(float32(2))))
        n2 = float32(0.5) * (float32(1) + math.erf(d2 / math.sqrt(float32(2))))
        call[i] = s[i] * n1 - x[i] * math.exp(-rate * t[i]) * n2


@case()
def black_scholes():
    s, x, t = floats(N, low=5, high=30), floats(N, low=1, high=100), floats(N, low=0.25, high=10)
    rate, volatility = np.float32(0.02), np.float32(0.3)
    root = np.sqrt(t.astype(np.float64))
    d1 = (np.log(s.astype(np.float64) / x) + (0.02 + 0.045) * t) / (0.3 * root)
    normal = np.vectorize(lambda d: 0.5 * (1 + math.erf(d / math.sqrt(2))))
    expected = s * normal(d1) - x * np.exp(-0.02 * t) * normal(d1 - 0.3 * root)
    out = cuda.device_array(N, np.float32)
    black_scholes_kernel[2, 128](s, x, t, rate, volatility, out)
    np.testing.assert_allclose(out.copy_to_host(), expected, rtol=1e-3, atol=1e-4)


@cuda.jit
def monte_carlo_kernel(states, n, o):
    i = cuda.grid(1)
    hits = 0
    for _ in range(n):
        x = xoroshiro128p_uniform_float32(states, i)
        y = xoroshiro128p_uniform_float32(states, i)
        if x * x + y * y <= 1:
            hits += 1
    o[i] = float32(4) * hits / n


@case()
def monte_carlo_pi():
    states = create_xoroshiro128p_states(N, seed=1)
    out = cuda.device_array(N, np.float32)
    monte_carlo_kernel[2, 128](states, 100, out)
    assert abs(out.copy_to_host().mean() - math.pi) < 0.05  # three standard deviations


@cuda.jit
def normal_kernel(states, o):
    i = cuda.grid(1)
    o[i] = xoroshiro128p_normal_float32(states, i)


@case()
def normal_random_numbers():
    out = cuda.device_array(1024, np.float32)
    normal_kernel[8, 128](create_xoroshiro128p_states(1024, seed=2), out)
    z = out.copy_to_host()
    assert abs(z.mean()) < 0.1
    assert abs(z.std() - 1) < 0.1


@cuda.jit
def casts_kernel(x, a, b, c):
    i = cuda.grid(1)
    a[i] = int16(x[i])
    b[i] = int8(a[i] * 2)
    c[i] = float32(b[i]) + round(x[i]) + math.trunc(x[i])


@case()
def conversions():
    x = floats(N, low=-60, high=60)
    x[:4] = [0.5, 1.5, 2.5, -0.5]
    a, b, c = (cuda.device_array(N, kind) for kind in (np.int16, np.int8, np.float32))
    casts_kernel[2, 128](x, a, b, c)
    whole = np.trunc(x).astype(np.int16)
    np.testing.assert_array_equal(a.copy_to_host(), whole)
    np.testing.assert_array_equal(b.copy_to_host(), (whole * 2).astype(np.int8))
    np.testing.assert_array_equal(c.copy_to_host(), b.copy_to_host() + np.round(x) + np.trunc(x))


@cuda.jit
def collatz_kernel(limit, o):
    i = cuda.grid(1)
    v = i + 1
    steps = 0
    while v != 1 and steps < limit:
        v = v // 2 if v % 2 == 0 else 3 * v + 1
        steps += 1
    o[i] = steps


@case()
def collatz():
    out = cuda.device_array(N, np.int32)
    collatz_kernel[2, 128](500, out)

    def steps(v):
        n = 0
        while v != 1:
            v, n = v // 2 if v % 2 == 0 else 3 * v + 1, n + 1
        return n

    np.testing.assert_array_equal(out.copy_to_host(), [steps(i + 1) for i in range(N)])
