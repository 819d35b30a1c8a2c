"""What NVIDIA's assembler says of a kernel: registers, stack, spills, shared bytes.

The virtual GPU executes PTX, so a register count has to come from elsewhere: the same PTX is assembled by nvJitLink
(which needs no GPU), and ptxas's report is read. What ptxas refuses is refused here too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True)
class Facts:
    """ptxas's report on one kernel."""

    registers: int  # per thread
    stack_bytes: int  # local memory per thread
    spill_store_bytes: int
    spill_load_bytes: int
    shared_bytes: int  # static
    constant_bytes: int  # banks other than the parameters
    barriers: int


# PTX -> the register limit that its linker was given (nvcc's -maxrregcount): the text itself does not say it.
MAX_REGISTERS: dict[bytes, int] = {}


class Refused(ValueError):
    """ptxas does not accept the PTX; the message is its log."""


class NoAssembler(RuntimeError):
    """nvJitLink is not installed or does not start."""


def target(ptx: str) -> str | None:
    """The architecture that the PTX is for: "sm_80", "sm_90a"."""
    found = re.search(r"^\s*\.target\s+(sm_\d+[af]?)", ptx, re.MULTILINE)
    return found[1] if found else None


def clusters(ptx: str) -> dict[str, tuple[int, int, int] | None]:
    """Kernels whose PTX asks for a cluster: blocks of it in x, y and z, or None where the launch has to say how many."""
    found: dict[str, tuple[int, int, int] | None] = {}
    for name, directives in re.findall(r"\.entry\s+([\w$]+)\s*(?:\([^)]*\))?([^{;]*)\{", ptx):
        if size := re.search(r"\.reqnctapercluster\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?", directives):
            found[name] = tuple(int(n or 1) for n in size.groups())
        elif ".explicitcluster" in directives:
            found[name] = None
    return found


@lru_cache(maxsize=256)
def assemble(ptx: bytes, arch: str) -> dict[str, Facts]:
    """Facts of every kernel in the PTX. Raises Refused, or NoAssembler."""
    return _report(_assemble(ptx, arch)[1])


def cubin(ptx: bytes, arch: str) -> bytes:
    """The machine code that ptxas makes of the PTX. Raises as `assemble` does."""
    return _assemble(ptx, arch)[0]


@lru_cache(maxsize=32)
def _assemble(ptx: bytes, arch: str) -> tuple[bytes, str]:
    """Machine code and log."""
    try:
        from cuda import pathfinder
        from cuda.bindings import nvjitlink
    except ImportError as error:
        raise NoAssembler(str(error)) from error
    ptx = re.sub(rb"^(\s*\.version\s+)([12]\.\d|3\.0)", rb"\g<1>3.1", ptx, count=1, flags=re.MULTILINE)  # -c needs 3.1
    options = [f"-arch={arch}", "-verbose", "-Xptxas=-v"]
    if ptx in MAX_REGISTERS:
        options.append(f"-maxrregcount={MAX_REGISTERS[ptx]}")
    try:
        handle = nvjitlink.create(len(options), options)
    except (RuntimeError, nvjitlink.nvJitLinkError) as error:
        raise NoAssembler(str(error)) from error
    try:
        nvjitlink.add_data(handle, nvjitlink.InputType.PTX, ptx, len(ptx), "kernel.ptx")
        if b"cudaCG" in ptx:  # grid-wide synchronisation
            nvjitlink.add_file(handle, nvjitlink.InputType.LIBRARY, pathfinder.find_static_lib("cudadevrt"))
        nvjitlink.complete(handle)
        code = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, code)
        return bytes(code), _log(nvjitlink.get_info_log_size, nvjitlink.get_info_log, handle)
    except pathfinder.StaticLibNotFoundError as error:
        raise NoAssembler(str(error)) from error
    except nvjitlink.nvJitLinkError as error:
        raise Refused(_log(nvjitlink.get_error_log_size, nvjitlink.get_error_log, handle) or str(error)) from None
    finally:
        nvjitlink.destroy(handle)


def _log(size, read, handle: int) -> str:
    buffer = bytearray(size(handle))
    if buffer:
        read(handle, buffer)
    return buffer.rstrip(b"\0").decode(errors="replace")


def _report(log: str) -> dict[str, Facts]:
    """Read `ptxas -v`'s lines: one about each entry function, then its stack and spills, then what it uses."""
    facts: dict[str, Facts] = {}
    name, stack, variables = None, (0, 0, 0), 0
    for line in log.splitlines():
        if found := re.search(r"\d+ bytes gmem, (\d+) bytes cmem\[3\]", line):
            variables = int(found[1])  # __constant__ variables of the module
        elif found := re.search(r"Compiling entry function '([^']+)'", line):
            name, stack = found[1], (0, 0, 0)
        elif found := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            stack = tuple(int(number) for number in found.groups())
        elif (found := re.search(r"Used (\d+) registers(.*)", line)) and name:
            rest = found[2]
            smem = re.search(r"(\d+) bytes smem", rest)
            barriers = re.search(r"used (\d+) barriers", rest)
            # Bank 0 is the launch parameters.
            banks = re.findall(r"(\d+) bytes cmem\[(\d+)\]", rest)
            constant = variables + sum(int(n) for n, bank in banks if bank != "0")
            facts[name] = Facts(
                int(found[1]), *stack, int(smem[1]) if smem else 0, constant, int(barriers[1]) if barriers else 0
            )
    return facts
