"""Put the driver in place: the shared object, its table, and the process's end."""

from __future__ import annotations

import ctypes
import weakref

from grader.vgpu import devices
from grader.vgpu.driver import (  # noqa: F401  (the chapters: importing them fills the table)
    abi,
    capture,
    context,
    device,
    errors,
    event,
    exec,
    graph,
    green,
    launch,
    library,
    memory,
    nodes,
    occupancy,
    peer,
    pool,
    stream,
    transfer,
    unified,
    user_object,
)
from grader.vgpu.driver.fabric import Fabric
from grader.vgpu.driver.state import Device, driver
from grader.vgpu.libcuda import EXPORTS, SLOTS, LibCuda

_lib: LibCuda | None = None
_kept: list = []  # ctypes callbacks must outlive their use, that is, the process
_addresses: dict[tuple[str, int, bool], int] = {}


def install(machine: devices.Machine) -> None:
    """Make this process's CUDA driver ours. Raises DriverAlreadyLoaded."""
    global _lib
    _lib = LibCuda()
    fabric = Fabric(machine)
    driver.devices = [Device(place, card, fabric) for place, card in enumerate(machine.cards)]
    # What clients look up with dlsym: the same functions, at the slots that have names.
    newest = 99_999
    for slot, name in enumerate(EXPORTS):
        function = _get_proc_address if name.startswith("cuGetProcAddress") else _callback(name, newest, 1)
        _kept.append(function)
        _lib.set(slot, ctypes.cast(function, ctypes.c_void_p).value)
    # Finalizers run last made, first called, after the exit handlers of whoever came later: numba, which releases its
    # own handles in finalizers, and cuda.core find a driver until they are done.
    weakref.finalize(_lib, _lib.close)


def _callback(name: str, version: int, default_stream: int):
    row = abi.find(name, version)
    return abi.missing(name) if row is None else abi.callback(row, default_stream)


def _address(name: str, version: int, per_thread: bool) -> int:
    """Where the jump for this version of an entry point is."""
    row = abi.find(name, version)
    key = (name, row.version if row else -1, per_thread)
    if key not in _addresses:
        slot = len(EXPORTS) + len(_addresses)
        if slot >= SLOTS:
            raise RuntimeError(f"more than {SLOTS} driver entry points were asked for")
        function = _callback(name, version, abi.PER_THREAD_DEFAULT_STREAM if per_thread else abi.LEGACY_DEFAULT_STREAM)
        _kept.append(function)
        _lib.set(slot, ctypes.cast(function, ctypes.c_void_p).value)
        _addresses[key] = _lib.entry(slot)
    return _addresses[key]


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_uint64, ctypes.c_size_t)
def _get_proc_address(symbol, where, version, flags, status):
    """cuGetProcAddress: every name has an address; one without a row says so when it is called."""
    if not symbol or not where:
        return errors.INVALID_VALUE
    name = symbol.decode(errors="replace")
    with abi.LOCK:
        if name == "cuGetProcAddress":
            address = _lib.entry(EXPORTS.index("cuGetProcAddress_v2"))
        else:
            address = _address(name, version, bool(flags & abi.PER_THREAD_DEFAULT_STREAM))
    ctypes.c_size_t.from_address(where).value = address
    if status:
        ctypes.c_int.from_address(status).value = 0  # CU_GET_PROC_ADDRESS_SUCCESS
    return errors.SUCCESS
