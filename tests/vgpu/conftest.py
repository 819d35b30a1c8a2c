"""Tests of the virtual GPU run on one in this process: two A100s."""

import gc
import os

os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")
os.environ.setdefault("NUMBA_CUDA_WARN_ON_IMPLICIT_COPY", "0")

import pytest

import grader.vgpu

grader.vgpu.activate("a100*2")

from numba import cuda


@pytest.fixture(scope="module", autouse=True)
def nothing_pending():
    """What numba still has to free is freed now: a later module that resets the device would leave it nothing to free."""
    yield
    gc.collect()
    for gpu in cuda.gpus:
        if context := gpu.primary_context:
            context.deallocations.clear()
            context.memory_manager.deallocations.clear()


@pytest.fixture
def device():
    """Device 0 with a primary context that no earlier test has touched, made current."""
    from cuda.bindings import driver as cu
    from driver_support import call

    call(cu.cuInit(0))
    device = call(cu.cuDeviceGet(0))
    context = call(cu.cuDevicePrimaryCtxRetain(device))
    call(cu.cuCtxPushCurrent(context))
    yield device
    call(cu.cuCtxPopCurrent())
    call(cu.cuDevicePrimaryCtxRelease(device))
