"""Kernels compiled for a debugger: initcheck reports no variable that is copied before it was set."""

import numpy as np
from numba import cuda

import grader.vgpu


def test_an_unoptimised_kernel_that_is_right_has_no_findings():
    @cuda.jit(debug=True, opt=False)
    def add_one(x, y):
        i = cuda.grid(1)
        if i < x.size:
            y[i] = x[i] + 1

    options = grader.vgpu.options()
    before = options.initcheck
    options.initcheck = True
    earlier = len(grader.vgpu.findings())
    try:
        x, y = cuda.to_device(np.arange(8, dtype=np.float32)), cuda.device_array(8, np.float32)
        add_one[1, 32](x, y)
        assert y.copy_to_host().tolist() == list(range(1, 9))
        assert grader.vgpu.findings()[earlier:] == []
    finally:
        options.initcheck = before
