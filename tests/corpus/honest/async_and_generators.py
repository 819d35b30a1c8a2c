# expect: AC
# exercise: 00_grid_stride
# Modern Python around the kernel.
import asyncio
import contextlib

from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1


async def report():
    await asyncio.sleep(0)
    return "fine"


@contextlib.contextmanager
def section(name):
    print("<", name)
    yield
    print(name, ">")


with section("loop"):
    match {"kernel": grid_stride}:
        case {"kernel": found} if (n := 3) > 2:
            print(*(k * n for k in range(3)), sep=",")
asyncio.run(report())
