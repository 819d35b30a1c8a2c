"""The machine code's instruction mix, read from a cubin: what ptxas made of the PTX, by pipe.

A cubin is an ELF file with a section .text.NAME for each kernel; from Volta on an instruction has 16 bytes, its opcode
in the low 9 bits (as CuAssembler's and NAK's tables name them).
"""

import struct

from . import costs

NOP, SELF_BRANCH = 0x118, 0x147
_FMA = {0x20, 0x21, 0x23, 0x24, 0x25, 0x27, 0x30, 0x31, 0x32, 0x35}
_FP64 = {0x28, 0x29, 0x2A, 0x2B}
_MEMORY = {0x180, 0x181, 0x184, 0x185, 0x186, 0x188, 0x1AE}  # LD, LDG, LDS, ST, STG, STS, LDGSTS
_XU = {0x104, 0x105, 0x106, 0x107, 0x108, 0x109, 0x10A, 0x110, 0x111, 0x112, 0x113}


def sections(cubin: bytes) -> dict[str, bytes]:
    """Kernel -> its machine code."""
    table, size = struct.unpack_from("<Q", cubin, 40)[0], struct.unpack_from("<H", cubin, 58)[0]
    n, names = struct.unpack_from("<HH", cubin, 60)
    rows = [struct.unpack_from("<IIQQQQ", cubin, table + k * size) for k in range(n)]
    found = {}
    for row in rows:
        at = rows[names][4] + row[0]
        name = cubin[at : cubin.index(b"\0", at)].decode()
        if name.startswith(".text."):
            found[name[6:]] = cubin[row[4] : row[4] + row[5]]
    return found


def mix(cubin: bytes, kernel: str) -> dict[int, int]:
    """Pipe -> instructions of the kernel's code. Empty when the kernel is not in the cubin."""
    counts: dict[int, int] = {}
    code = sections(cubin).get(kernel, b"")
    for at in range(0, len(code), 16):
        op = struct.unpack_from("<H", code, at)[0] & 0x1FF
        if op == NOP:
            continue
        pipe = costs.ALU
        if op in _FMA:
            pipe = costs.FMA
        elif op in _FP64:
            pipe = costs.FP64
        elif op in _XU:
            pipe = costs.XU
        elif op in _MEMORY:
            pipe = costs.LSU
        elif op >= 0x114:
            pipe = costs.CBU  # control, and memory that PTX does not spell out
        counts[pipe] = counts.get(pipe, 0) + 1
    return counts
