"""What kernels print: formats and arguments kept by vg_printf, put together on the host."""

import re
import struct

import numpy as np

from ..jit import state
from ..jit.raw import raw_view
from .memory import Memory

_SPEC = re.compile(r"%([-+ #0]*)(\d+)?(?:\.(\d+))?(hh|h|ll|l|L|q|j|z|t)?([diouxXeEfFgGaAcsp%])")


def read_string(memory: Memory, address: int, limit: int = 4096) -> str:
    """The NUL-terminated string at a device address; '<bad pointer>' when there is none."""
    allocation = memory.find(address)
    if allocation is None:
        return "<bad pointer>"
    raw = raw_view(address, min(limit, allocation.end - address)).tobytes()
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")


def c_format(fmt: str, args: bytes, memory: Memory) -> str:
    """printf with varargs as CUDA packs them: each at a multiple of its size, 4 or 8 bytes (doubles for %f)."""
    out, at, end = [], 0, 0
    for match in _SPEC.finditer(fmt):
        out.append(fmt[end : match.start()])
        end = match.end()
        flags, width, precision, length, conv = match.groups()
        if conv == "%":
            out.append("%")
            continue
        wide = conv in "eEfFgGaAsp" or length in ("l", "ll", "q", "j", "z", "t")
        size = 8 if wide else 4
        at = (at + size - 1) // size * size
        raw = args[at : at + size].ljust(size, b"\0")
        at += size
        spec = "%" + flags + (width or "") + (f".{precision}" if precision is not None else "")
        if conv in "eEfFgG":
            out.append((spec + conv) % struct.unpack("<d", raw)[0])
        elif conv in "aA":
            out.append(float(struct.unpack("<d", raw)[0]).hex())
        elif conv == "s":
            out.append((spec + "s") % read_string(memory, struct.unpack("<q", raw)[0]))
        elif conv == "p":
            out.append(f"{struct.unpack('<Q', raw)[0]:#x}")
        elif conv == "c":
            out.append(chr(raw[0]))
        else:
            signed = conv in "di"
            value = int.from_bytes(raw, "little", signed=signed)
            out.append((spec + ("d" if conv in "diu" else conv)) % value)
    out.append(fmt[end:])
    return "".join(out)


def format_prints(worker, memory: Memory) -> bytes:
    """All that a worker's blocks printed, in order."""
    n = int(worker.grid[state.G_NPRINT // 8])
    if n == 0:
        return b""
    text = []
    records = worker.prints.reshape(-1, state.PRINT_BYTES)[:n]
    for record in records:
        head = record[:24].view(np.int64)
        text.append(c_format(read_string(memory, int(head[2])), record[24:].tobytes(), memory))
    lost = int(worker.grid[state.G_PRINT_LOST // 8])
    if lost:
        text.append(f"[{lost} more lines did not fit in the printf buffer]\n")
    return "".join(text).encode()
