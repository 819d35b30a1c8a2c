"""A pytest plugin: the row tests of tests/vgpu/rows run their kernels through this machine's driver.

It stands in for the three names that `harness.py` takes from the virtual GPU's machine: Memory, Module and launch.
"""

import ctypes
import re
from types import SimpleNamespace

import numpy as np
from cuda.bindings import driver as cu

from grader.devices.driver import call

CC = tuple(
    getattr(cu.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_{part}") for part in ("MAJOR", "MINOR")
)


def _context() -> str:
    """Make the card's primary context current. -> its architecture, "sm_90a"."""
    call(cu.cuInit, 0)
    device = call(cu.cuDeviceGet, 0)
    call(cu.cuCtxSetCurrent, call(cu.cuDevicePrimaryCtxRetain, device))
    major, minor = (call(cu.cuDeviceGetAttribute, which, device) for which in CC)
    return f"sm_{major}{minor}{'a' if major == 9 else ''}"


class Memory:
    """Managed memory, so that a view is one of NumPy's."""

    def __init__(self):
        self.arch = _context()

    def allocate(self, nbytes: int):
        address = int(call(cu.cuMemAllocManaged, nbytes, cu.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL.value))
        return SimpleNamespace(address=address, nbytes=nbytes)

    def view(self, address: int, nbytes: int) -> np.ndarray:
        call(cu.cuCtxSynchronize)
        return np.frombuffer((ctypes.c_ubyte * nbytes).from_address(address), np.uint8)

    def written(self, address: int, nbytes: int) -> None:
        """The card does not keep account."""

    def free(self, address: int) -> None:
        call(cu.cuMemFree, address)


class Module:
    """PTX that the driver compiles, for the architecture that the card has."""

    def __init__(self, text, memory: Memory):
        text = text.decode() if isinstance(text, bytes) else text
        text = re.sub(r"\.target \w+", f".target {memory.arch}", text)
        self._module = call(cu.cuModuleLoadData, text.encode() + b"\0")
        names = re.findall(r"\.entry\s+(\w+)", text)
        self.kernels = {name: call(cu.cuModuleGetFunction, self._module, name.encode()) for name in names}


def launch(kernel, grid, block, args: bytes, *, shared: int = 0, options=None):
    """The row tests' kernels all take 64-bit parameters."""
    raw = (ctypes.c_ubyte * len(args)).from_buffer_copy(args)
    pointers = (ctypes.c_void_p * (len(args) // 8))(*range(ctypes.addressof(raw), ctypes.addressof(raw) + len(args), 8))
    call(cu.cuLaunchKernel, kernel, *grid, *block, shared, 0, ctypes.addressof(pointers), 0)
    call(cu.cuCtxSynchronize)
    return SimpleNamespace(fault=None, findings=(), printed=b"")


def pytest_collection_modifyitems(items) -> None:
    """The modules have been imported: give them the card."""
    import harness

    harness.Memory, harness.Module, harness.launch = Memory, Module, launch
