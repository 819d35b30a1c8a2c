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
    """What is queued is done now: pinned pages of a copy that nobody waited for would be protected in other modules too.

    And what numba still has to free is freed: a later module that resets the device would leave it nothing to free.
    """
    yield
    grader.vgpu.finish()
    gc.collect()
    for gpu in cuda.gpus:
        if context := gpu.primary_context:
            context.deallocations.clear()
            context.memory_manager.deallocations.clear()


@pytest.fixture(autouse=True)
def primary_contexts():
    """Both are active: a test before may have reset what numba goes on using."""
    cu.cuInit(0)
    contexts = []
    for ordinal in range(2):
        error, context = cu.cuDevicePrimaryCtxRetain(ordinal)
        assert int(error) == 0
        contexts.append(context)
    yield
    for one, other in (contexts, contexts[::-1]):  # where numba uses it, it outlives the test, and the access with it
        cu.cuCtxPushCurrent(one)
        cu.cuCtxDisablePeerAccess(other)
        cu.cuCtxPopCurrent()
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
