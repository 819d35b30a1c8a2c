# expect: AC
# exercise: 00_grid_stride
# Identifiers in Greek.
from numba import cuda


@cuda.jit
def grid_stride(ξ, ψ):
    for ι in range(cuda.grid(1), ξ.size, cuda.gridsize(1)):
        ψ[ι] = ξ[ι] * ξ[ι] + 1  # ψ = ξ² + 1, für alle ι
