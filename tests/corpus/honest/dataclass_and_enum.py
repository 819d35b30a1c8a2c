# expect: AC
# exercise: 00_grid_stride
# Objects around the kernel.
import enum
from dataclasses import dataclass, field

from numba import cuda


class Size(enum.IntEnum):
    SMALL = 128
    LARGE = 256


@dataclass(frozen=True)
class Launch:
    threads: Size = Size.SMALL
    notes: list[str] = field(default_factory=list)


launch = Launch()


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1
