"""Write and load the shared object that every CUDA client finds as `libcuda.so.1`.

The file is an ELF64 shared object written by Python, so that no compiler is needed. It holds a row of small jumps:
jump k goes to the address in slot k of one writable table, and Python fills the table (with ctypes callbacks). The
first few jumps are exported by name, because some clients look them up with dlsym; every other entry point is handed
out by `cuGetProcAddress` as the address of an unnamed jump.

Going through a slot, rather than handing out the callback itself, is what makes the end of the process safe: `close()`
points every slot at two instructions that return CUDA_ERROR_DEINITIALIZED, as the real driver does then. Clients that
release their handles after the interpreter has gone would otherwise call into a Python that no longer exists.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import tempfile

EXPORTS = ("cuGetProcAddress_v2", "cuGetProcAddress", "cuInit", "cuDriverGetVersion", "cuGetExportTable")
SLOTS = 1024  # the driver API of CUDA 13 has some 550 entry points; some have two variants
# dlopen matches by these names once a library with the DT_SONAME is loaded. numba asks for the unversioned name first,
# which on a machine with a GPU would otherwise find the real driver.
SONAMES = ("libcuda.so.1", "libcuda.so")

_JUMP = 16  # bytes of one jump
_TABLE = "vgpu_slots"
_CLOSED = "vgpu_closed"
_ENTRIES = "vgpu_entries"


class DriverAlreadyLoaded(RuntimeError):
    """A real libcuda is in this process, and a process can have only one."""


def _x86_64(slot_offset: int) -> bytes:
    """mov rax, [rip + slot_offset]; jmp rax. The offset counts from the jump's first byte."""
    return (b"\x48\x8b\x05" + struct.pack("<i", slot_offset - 7) + b"\xff\xe0").ljust(_JUMP, b"\x90")


def _aarch64(slot_offset: int) -> bytes:
    """ldr x16, slot; br x16. x16 is the register that the ABI leaves to such veneers."""
    ldr = 0x58000010 | ((slot_offset // 4) & 0x7FFFF) << 5
    return struct.pack("<IIII", ldr, 0xD61F0200, 0xD503201F, 0xD503201F)


# machine name: (e_machine, page size to align to, jump, code of `return CUDA_ERROR_DEINITIALIZED`)
_MACHINES = {
    "x86_64": (62, 0x1000, _x86_64, b"\xb8\x04\x00\x00\x00\xc3".ljust(_JUMP, b"\x90")),
    "aarch64": (183, 0x10000, _aarch64, struct.pack("<IIII", 0x52800080, 0xD65F03C0, 0xD503201F, 0xD503201F)),
}


def _align(value: int, to: int) -> int:
    return (value + to - 1) // to * to


def build(soname: str = SONAMES[0], machine: str | None = None) -> bytes:
    """The bytes of the shared object for `machine` ("x86_64" or "aarch64"; None: this one).

    Raises NotImplementedError for any other machine.
    """
    machine = machine or platform.machine()
    if machine not in _MACHINES:
        raise NotImplementedError(f"the virtual GPU's libcuda is written for {', '.join(_MACHINES)}, not {machine}")
    e_machine, page, jump, closed = _MACHINES[machine]

    symbols = [*EXPORTS, _ENTRIES, _CLOSED, _TABLE]
    strings, at = b"\0", {}
    for name in (*symbols, soname):
        at[name] = len(strings)
        strings += name.encode() + b"\0"

    n = len(symbols) + 1
    hash_at = 64 + 56 * 4  # after the ELF header and four program headers
    symbols_at = _align(hash_at + 4 * (3 + n), 8)
    strings_at = symbols_at + 24 * n
    text_at = _align(strings_at + len(strings), 16)
    text_end = text_at + _JUMP * (SLOTS + 1)
    table_at = _align(text_end, page)  # a page of its own: read-write
    dynamic_at = table_at + 8 * SLOTS
    dynamic = [(14, at[soname]), (4, hash_at), (5, strings_at), (6, symbols_at), (10, len(strings)), (11, 24), (0, 0)]
    size = dynamic_at + 16 * len(dynamic)

    def segment(kind: int, flags: int, start: int, nbytes: int, align: int) -> bytes:
        return struct.pack("<IIQQQQQQ", kind, flags, start, start, start, nbytes, nbytes, align)

    def symbol(name: str, kind: int, section: int, value: int, nbytes: int) -> bytes:
        return struct.pack("<IBBHQQ", at[name], 0x10 | kind, 0, section, value, nbytes)

    where = {name: text_at + _JUMP * k for k, name in enumerate(EXPORTS)}
    where |= {_ENTRIES: text_at, _CLOSED: text_at + _JUMP * SLOTS}
    function, variable = 2, 1
    image = bytearray(size)
    parts = {
        0: b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
        + struct.pack("<HHIQQQIHHHHHH", 3, e_machine, 1, 0, 64, 0, 0, 64, 56, 4, 0, 0, 0),
        64: segment(1, 5, 0, text_end, page)  # PT_LOAD r-x
        + segment(1, 6, table_at, size - table_at, page)  # PT_LOAD rw-
        + segment(2, 6, dynamic_at, 16 * len(dynamic), 8)  # PT_DYNAMIC
        + segment(0x6474E551, 6, 0, 0, 16),  # PT_GNU_STACK: not executable
        # one hash bucket whose chain holds every symbol
        hash_at: struct.pack(f"<{3 + n}I", 1, n, 1, 0, *range(2, n), 0),
        symbols_at: bytes(24)
        + b"".join(symbol(name, function, 1, value, _JUMP) for name, value in where.items())
        + symbol(_TABLE, variable, 2, table_at, 8 * SLOTS),
        strings_at: strings,
        text_at: b"".join(jump(table_at - text_at + (8 - _JUMP) * k) for k in range(SLOTS)) + closed,
        dynamic_at: b"".join(struct.pack("<QQ", *entry) for entry in dynamic),
    }
    for offset, part in parts.items():
        image[offset : offset + len(part)] = part
    return bytes(image)


def real_driver() -> str | None:
    """The path of a libcuda that this process has loaded, if any, other than ours."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            path = line.rstrip("\n").partition("/")[2]
            name = path.rpartition("/")[2]
            if name.startswith("libcuda.so") and "/vgpu-" not in f"/{path}":
                return "/" + path
    return None


class LibCuda:
    """The loaded shared object: `set(k, address)` fills slot k, `entry(k)` is the address to hand out for it."""

    def __init__(self):
        """Write it, load it and remove the file. Raises DriverAlreadyLoaded, or OSError where it cannot be loaded."""
        if path := real_driver():
            raise DriverAlreadyLoaded(
                f"a real CUDA driver is already loaded in this process ({path}), and a process can have only one. "
                "Switch the virtual GPU on before anything imports numba.cuda, cuda.core or cupy: run the script with "
                "`python -m grader run`, or restart the kernel and load the extension in the first cell."
            )
        self._libraries = [_load(soname) for soname in SONAMES]
        self._tables = [(ctypes.c_void_p * SLOTS).in_dll(lib, _TABLE) for lib in self._libraries]
        first = self._libraries[0]
        self._entries = ctypes.addressof(ctypes.c_char.in_dll(first, _ENTRIES))
        self._closed = ctypes.addressof(ctypes.c_char.in_dll(first, _CLOSED))
        self.close()

    def set(self, slot: int, address: int) -> None:
        """Let jump `slot` lead to `address`."""
        for table in self._tables:
            table[slot] = address

    def entry(self, slot: int) -> int:
        """The address of jump `slot`."""
        return self._entries + _JUMP * slot

    def close(self) -> None:
        """From now on every entry point returns CUDA_ERROR_DEINITIALIZED without touching Python."""
        for table in self._tables:
            for slot in range(SLOTS):
                table[slot] = self._closed


def _load(soname: str) -> ctypes.CDLL:
    """Load a fresh copy under this name. The directory is ours alone (mode 700), and gone when the copy is loaded."""
    with tempfile.TemporaryDirectory(prefix="vgpu-") as folder:
        path = os.path.join(folder, soname)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o500)
        with os.fdopen(fd, "wb") as file:
            file.write(build(soname))
        return ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
