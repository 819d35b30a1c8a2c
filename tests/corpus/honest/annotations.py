# expect: AC
# exercise: 00_grid_stride
# Types on everything.
from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import cuda


@cuda.jit
def grid_stride(x: npt.NDArray[np.float32], y: npt.NDArray[np.float32]) -> None:
    start: int = cuda.grid(1)
    step: int = cuda.gridsize(1)
    for i in range(start, x.size, step):
        v: np.float32 = x[i]
        y[i] = v * v + 1
