"""Error Handling, Initialization, Version Management, Device Management."""

from __future__ import annotations

import ctypes
import os

from grader.vgpu.driver import errors
from grader.vgpu.driver.abi import cstr, entry, i32, out, ptr, say, size, u32
from grader.vgpu.driver.errors import CudaError
from grader.vgpu.driver.state import CUDA_VERSION, DEVICE, driver

_texts: dict[str, ctypes.Array] = {}  # C strings that stay where they are


def c_string(text: str) -> int:
    """The address of a C string that lives as long as the process."""
    if text not in _texts:
        _texts[text] = ctypes.create_string_buffer(text.encode())
    return ctypes.addressof(_texts[text])


@entry("cuGetErrorName", i32, ptr, context=False, init=False)
def get_error_name(code, where):
    _write_text(errors.name(code), where)


@entry("cuGetErrorString", i32, ptr, context=False, init=False)
def get_error_string(code, where):
    _write_text(errors.text(code), where)


def _write_text(text: str | None, where: int) -> None:
    if not where:
        raise CudaError(errors.INVALID_VALUE)
    ctypes.c_size_t.from_address(where).value = c_string(text) if text else 0
    if text is None:
        raise CudaError(errors.INVALID_VALUE)


@entry("cuInit", u32, context=False, init=False)
def init(flags):
    if flags:
        raise CudaError(errors.INVALID_VALUE)
    if not driver.initialised:
        driver.devices = _visible(driver.devices)
    if not driver.devices:
        raise CudaError(errors.NO_DEVICE)
    driver.initialised = True


def _visible(devices: list) -> list:
    """The devices that CUDA_VISIBLE_DEVICES names, up to the first that does not exist, numbered anew."""
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return devices
    chosen = []
    for item in wanted.split(","):
        if not item.strip().isdecimal() or int(item) >= len(devices) or devices[int(item)] in chosen:
            break
        chosen.append(devices[int(item)])
    for ordinal, device in enumerate(chosen):
        device.ordinal = ordinal
    return chosen


@entry("cuDriverGetVersion", out(i32), context=False, init=False)
def driver_get_version():
    return CUDA_VERSION


@entry("cuDeviceGetCount", out(i32), context=False)
def device_get_count():
    return len(driver.devices)


@entry("cuDeviceGet", out(i32), i32, context=False)
def device_get(ordinal):
    return DEVICE.convert(ordinal, 0).ordinal


@entry("cuDeviceGetName", ptr, i32, DEVICE, context=False)
def device_get_name(where, length, device):
    _write_chars(where, length, device.card.name + " (virtual)")


@entry("cuDeviceGetPCIBusId", ptr, i32, DEVICE, context=False)
def device_get_pci_bus_id(where, length, device):
    _write_chars(where, length, device.pci_bus_id)


def _write_chars(where: int, length: int, text: str) -> None:
    """At most length - 1 characters and a NUL."""
    if not where or length <= 0:
        raise CudaError(errors.INVALID_VALUE)
    ctypes.memmove(where, text.encode()[: length - 1] + b"\0", min(len(text), length - 1) + 1)


@entry("cuDeviceGetByPCIBusId", out(i32), cstr, context=False)
def device_get_by_pci_bus_id(text):
    for device in driver.devices:
        if text and device.pci_bus_id.lower().endswith(text.decode(errors="replace").lower().lstrip("0")):
            return device.ordinal
    raise CudaError(errors.INVALID_DEVICE)


@entry("cuDeviceGetUuid", ptr, DEVICE, context=False)
def device_get_uuid(where, device):
    if not where:
        raise CudaError(errors.INVALID_VALUE)
    ctypes.memmove(where, device.uuid, 16)


@entry("cuDeviceTotalMem", out(size), DEVICE, context=False)
def device_total_mem(device):
    return device.card.memory_bytes


@entry("cuDeviceGetAttribute", out(i32), i32, DEVICE, context=False)
def device_get_attribute(which, device):
    if not 0 < which <= 161:
        raise CudaError(errors.INVALID_VALUE)
    return device.attributes.get(which, 0)


@entry("cuDeviceComputeCapability", out(i32), out(i32), DEVICE, context=False)
def device_compute_capability(device):
    return device.card.cc


@entry("cuDeviceGetExecAffinitySupport", out(i32), u32, DEVICE, context=False)
def device_get_exec_affinity_support(kind, device):
    return 0


@entry("cuGetExportTable", ptr, ptr, context=False, init=False)
def get_export_table(where, uuid):
    """Undocumented tables of functions. nvJitLink asks for one and does without it; the CUDA runtime does not."""
    if not where or not uuid:
        raise CudaError(errors.INVALID_VALUE)
    ctypes.c_size_t.from_address(where).value = 0
    if ctypes.string_at(uuid, 16).hex() != "da9151d33ae6cc41a5c04f26d533e328":  # nvJitLink's
        say(
            "something asked the driver for an undocumented table, as the CUDA runtime library does; "
            "cuda.bindings.runtime does not work on the virtual GPU: use cuda.bindings.driver or cuda.core"
        )
    raise CudaError(errors.NOT_FOUND)


@entry("cuProfilerStart", "cuProfilerStop")
def profiler(ctx):
    """Counters are kept whether or not this is called."""


@entry("cuDeviceGetLuid", ptr, ptr, DEVICE, context=False)
def device_get_luid(luid, mask, device):
    raise CudaError(errors.NOT_SUPPORTED)  # Windows only, on a real driver too
