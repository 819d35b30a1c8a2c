# expect: AC
# exercise: 00_grid_stride
# Tries itself first, on the device, with a stream and events.
import numpy as np
from numba import cuda


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1


rng = np.random.default_rng(0)
x = rng.standard_normal(1000).astype(np.float32)
stream = cuda.stream()
begin, end = cuda.event(), cuda.event()
with cuda.pinned(x):
    d_x = cuda.to_device(x, stream=stream)
    d_y = cuda.device_array_like(d_x)
    begin.record(stream)
    grid_stride[4, 128, stream](d_x, d_y)
    end.record(stream)
    y = d_y.copy_to_host(stream=stream)
    stream.synchronize()
np.testing.assert_allclose(y, x * x + 1, rtol=1e-6)
print(f"{cuda.event_elapsed_time(begin, end):.3f} ms, all right")
