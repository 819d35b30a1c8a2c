# expect: AC
# exercise: 00_grid_stride
# Draws what it computed.
import matplotlib.pyplot as plt
import numpy as np
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1


x = np.linspace(-1, 1, 50)
fig, ax = plt.subplots()
ax.plot(x, x * x + 1, label="y = x² + 1")
ax.legend()
plt.show()
