# expect: error RTE
from numba import cuda, float32, void

space = {}
exec("def kernel(x):\n    x[0] = " + "x[0] + (" * 80 + "1" + ")" * 80 + "\n" + "    x[0] = undefined_name\n", space)
cuda.compile_ptx(space["kernel"], void(float32[::1]), cc=(8, 0))
