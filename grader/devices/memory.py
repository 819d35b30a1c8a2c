"""The buffers of a replay: device, managed and pinned memory, and plain pages for what was pageable."""

import ctypes
import mmap

import numpy as np
from cuda.bindings import driver as cu

from grader.devices.driver import DeviceError, call, pointer
from grader.program import Buffer

GUARD_BYTE = 0xA7
FRESH = 0xCB  # fills host memory that nobody has written


class Memory:
    """One buffer with its guard bands. It exists from the start, or from `allocate` on if the program allocates it."""

    def __init__(self, buffer: Buffer, guard: int, later: bool = False):
        self.nbytes, self.kind = buffer.nbytes, buffer.kind
        self.guard = 0 if later else guard
        self.address = self._base = 0
        self._pages: mmap.mmap | None = None
        self._registered: list[int] = []
        if not later:
            self.allocate(None)

    @property
    def at_host(self) -> bool:
        """The host can read and write it."""
        return self.kind != "device"

    def allocate(self, stream) -> None:
        """Make it, at once (None) or in the order of a stream."""
        total = self.nbytes + 2 * self.guard
        if self.kind == "pageable":
            try:
                self._pages = mmap.mmap(-1, total)  # shares no page with anything else that may be page-locked
            except OSError:
                raise DeviceError(f"{total} bytes of the host's memory", "CUDA_ERROR_OUT_OF_MEMORY") from None
            self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._pages))
        elif self.kind == "managed":
            self._base = int(call(cu.cuMemAllocManaged, total, cu.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL.value))
        elif self.kind == "host":
            self._base = int(call(cu.cuMemHostAlloc, total, 0))
        elif stream is None:
            self._base = int(call(cu.cuMemAlloc, total))
        else:
            self._base = int(call(cu.cuMemAllocAsync, total, stream))
        self.address = self._base + self.guard

    def free(self, stream=None) -> None:
        """Give it back, if it is there. After a fault the driver refuses; the process is on its way out then."""
        for address in self._registered:
            cu.cuMemHostUnregister(address)
        base, self._base = self._base, 0
        if base and self.guard and self.kind in ("device", "managed"):
            # A real card hands the same pages to whoever comes next, who shall not find the answer of the reference there.
            cu.cuMemsetD8(base, FRESH, self.nbytes + 2 * self.guard)
        if not base or self.kind == "pageable":
            self._pages = None
        elif self.kind == "host":
            cu.cuMemFreeHost(base)
        elif stream is None or self.kind == "managed":
            cu.cuMemFree(base)
        else:
            cu.cuMemFreeAsync(base, stream)

    def register(self, offset: int, nbytes: int) -> None:
        """Page-lock a part of plain memory."""
        call(cu.cuMemHostRegister, self.address + offset, nbytes, 0)
        self._registered.append(self.address + offset)

    def unregister(self, offset: int) -> None:
        """The reverse."""
        call(cu.cuMemHostUnregister, self.address + offset)
        self._registered.remove(self.address + offset)

    def prepare(self, contents: bytes | None, poison: int | None) -> None:
        """Give it its contents or the poison before the timed part; with neither, device memory stays as it came."""
        if self.guard:
            for at in (self._base, self.address + self.nbytes):
                self._fill(at, GUARD_BYTE, self.guard)
        if contents is not None:
            if self.at_host:
                self.write(0, contents)
            else:
                call(cu.cuMemcpyHtoD, self.address, pointer(contents), self.nbytes)
        elif poison is not None or self.at_host:
            self._fill(self.address, FRESH if poison is None else poison, self.nbytes)

    def write(self, offset: int, contents: bytes) -> None:
        """The host writes."""
        ctypes.memmove(self.address + offset, contents, len(contents))

    def read(self) -> bytes:
        """Its bytes now."""
        return self._bytes(self.address, self.nbytes)

    def guards_intact(self) -> bool:
        """Nobody wrote next to it."""
        ends = (self._base, self.address + self.nbytes) if self.guard else ()
        return all(self._bytes(at, self.guard) == bytes([GUARD_BYTE]) * self.guard for at in ends)

    def _fill(self, address: int, value: int, nbytes: int) -> None:
        if self.at_host:
            ctypes.memset(address, value, nbytes)
        else:
            call(cu.cuMemsetD8, address, value, nbytes)

    def _bytes(self, address: int, nbytes: int) -> bytes:
        if self.at_host:
            return ctypes.string_at(address, nbytes)
        out = np.empty(nbytes, np.uint8)
        call(cu.cuMemcpyDtoH, out.ctypes.data, address, nbytes)
        return out.tobytes()
