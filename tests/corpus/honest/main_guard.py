# expect: AC
# exercise: 00_grid_stride
# A script with a main of its own, which is not run.
import sys

from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1


def main(argv):
    raise SystemExit("only when run as a script")


if __name__ == "__main__":
    sys.exit(main(sys.argv))
