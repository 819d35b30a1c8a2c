"""Each device function with an argument that it cannot take; prints what the compiler says of it."""

import numpy as np
from numba import cuda, float32

from grader.kit import cp_async, cp_async_wait, load4, store4

CASES = {
    "size": ("cp_async(tile, 0, x, 0, 12)", np.float32),
    "size not constant": ("cp_async(tile, 0, x, 0, n)", np.float32),
    "no array": ("cp_async(tile, 0, n, 0, 4)", np.float32),
    "half an element": ("cp_async(tile, 0, x, 0, 4)", np.float64),
    "groups not constant": ("cp_async_wait(n)", np.float32),
    "load of float64": ("load4(x, 0)", np.float64),
    "store of a number": ("store4(x, 0, 1.0)", np.float32),
}

for name, (line, dtype) in CASES.items():
    names = {
        "cuda": cuda, "float32": float32, "cp_async": cp_async, "cp_async_wait": cp_async_wait, "load4": load4,
        "store4": store4,
    }  # fmt: skip
    exec(f"def f(x, n):\n    tile = cuda.shared.array(32, float32, 16)\n    {line}\n", names)
    try:
        cuda.jit(names["f"])[1, 32](np.ones(32, dtype), 4)
        print(f"{name}: accepted")
    except Exception as error:
        print(f"{name}: {' '.join(str(error).split())}")
