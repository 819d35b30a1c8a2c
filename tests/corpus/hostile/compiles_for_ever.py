# expect: time TLE
from numba import cuda, float32, void

body = "".join(f"    y[{n}] = x[{n}] * y[{n + 1}] + x[{n + 2}] ** 2\n" for n in range(20_000))
space = {}
exec("def kernel(x, y):\n" + body, space)
cuda.compile_ptx(space["kernel"], void(float32[::1], float32[::1]), cc=(8, 0))
