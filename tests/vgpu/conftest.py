"""Tests of the virtual GPU run on one in this process: two A100s."""

import gc
import os

os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")
os.environ.setdefault("NUMBA_CUDA_WARN_ON_IMPLICIT_COPY", "0")

import pytest

import grader.vgpu

grader.vgpu.activate("a100*2")

from cuda.bindings import driver as cu  # noqa: E402 (there has to be a driver first)
from numba import cuda  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def nothing_pending():
    """What numba still has to free is freed now: a later module that resets the device would leave it nothing to free."""
    yield
    gc.collect()
    for gpu in cuda.gpus:
        if context := gpu.primary_context:
            context.deallocations.clear()
            context.memory_manager.deallocations.clear()


@pytest.fixture(autouse=True)
def primary_contexts():
    """Both are active: a test before may have reset what numba goes on using."""
    cu.cuInit(0)
    for ordinal in range(2):
        assert int(cu.cuDevicePrimaryCtxRetain(ordinal)[0]) == 0
    yield
    for ordinal in range(2):
        assert int(cu.cuDevicePrimaryCtxRelease(ordinal)[0]) == 0


@pytest.fixture
def device():
    """Device 0 with a primary context that no earlier test has touched, made current."""
    from driver_support import call

    device = call(cu.cuDeviceGet(0))
    context = call(cu.cuDevicePrimaryCtxRetain(device))
    call(cu.cuCtxPushCurrent(context))
    yield device
    call(cu.cuCtxPopCurrent())
    call(cu.cuDevicePrimaryCtxRelease(device))
